use super::{Failure, Place};
use clap::Args;

/// Show one device
#[derive(Debug, Args)]
pub(super) struct Show {
    /// Its user name
    #[arg(value_name = "USER")]
    user: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Place,
}

impl Show {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut accounts = self.place.open()?;
        let account = accounts.find(&self.user)?;
        let view = account.ok_or_else(|| accounts.missing(&self.user))?.view();
        if self.json {
            let text = serde_json::to_string_pretty(&view).map_err(Failure::running)?;
            println!("{text}");
            return Ok(());
        }
        let contacts = view.max_contacts.map(|count| count.to_string());
        println!("user        {}", view.user);
        println!("realm       {}", view.realm);
        println!("algorithms  {}", view.algorithms.join(", "));
        println!("iax2        {}", if view.iax2 { "yes" } else { "no" });
        println!(
            "contacts    {}",
            contacts.as_deref().unwrap_or("sip.max_contacts")
        );
        println!("mailbox     {}", view.mailbox.as_deref().unwrap_or("none"));
        println!("hints       {}", view.hints.join(", "));
        Ok(())
    }
}
