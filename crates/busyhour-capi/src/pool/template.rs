use super::{
    bh_pool, bh_serializer,
    serializer_options::{SerializerOptions, bh_serializer_options},
};
use crate::{
    edge::{Out, Process, Threaded, copy_text, give, guard, live, quietly, release},
    result::bh_result,
};
use busyhour::serializer::SerializerTemplate;
use std::ffi::c_char;

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
        let read = SerializerOptions::of(options);
        let out = Out::required(out, "out")?;
        let pool = &live(pool, "pool")?.pool;
        let template = read?.template_from(|name| pool.serializer(name))?;
        give(out, bh_template::new(template));
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

/// Copies the name to `text`, which has room for `size` bytes, and ends it with a NUL; returns the length of the whole name.
#[unsafe(no_mangle)]
pub extern "C" fn bh_template_name(
    template: *const bh_template,
    text: *mut c_char,
    size: usize,
) -> usize {
    quietly(0, || {
        let name = live(template, "template").map_or("", |handle| handle.template.name());
        copy_text(name, text, size)
    })
}

impl bh_template {
    pub(crate) fn new(template: SerializerTemplate) -> Self {
        let process = Process::current();
        Self { template, process }
    }
}
