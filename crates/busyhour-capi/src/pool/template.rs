use super::{
    bh_pool, bh_serializer,
    serializer_options::{SerializerOptions, bh_serializer_options},
};
use crate::{
    edge::{Out, Process, Threaded, give, guard, live, quietly, read_options, release},
    result::bh_result,
};
use busyhour::serializer::SerializerTemplate;

/// The options that many serializers of one kind share.
pub struct bh_template {
    template: SerializerTemplate,
    process: Process,
}

impl Threaded for bh_template {
    fn process(&self) -> Process {
        self.process
    }
}

/// Keeps options for many serializers, one for each device, call or connection. Their name is that of the kind; no list shows
/// them one by one. The callback in the options belongs to the library from this call on, whatever it returns.
#[unsafe(no_mangle)]
pub extern "C" fn bh_template_new(
    pool: *mut bh_pool,
    options: *const bh_serializer_options,
    out: *mut *mut bh_template,
) -> bh_result {
    guard(|| {
        let options = read_options(options, "options")?;
        let read = SerializerOptions::read(&options);
        let out = Out::required(out, "out")?;
        let template = read?.template(&live(pool, "pool")?.pool)?;
        let process = Process::current();
        give(out, bh_template { template, process });
        Ok(())
    })
}

/// Frees the template; its serializers live on.
#[unsafe(no_mangle)]
pub extern "C" fn bh_template_free(template: *mut bh_template) {
    quietly((), || {
        if live(template, "template").is_ok() {
            drop(release(template));
        }
    });
}

/// A new serializer with the options of the template.
#[unsafe(no_mangle)]
pub extern "C" fn bh_template_serializer(
    template: *const bh_template,
    out: *mut *mut bh_serializer,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        give(
            out,
            bh_serializer::new(live(template, "template")?.template.ephemeral()),
        );
        Ok(())
    })
}
