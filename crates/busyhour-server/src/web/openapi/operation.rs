use super::schemas::Schemas;
use axum::http::Method;
use serde_json::{Value, json};

/// One method of one path.
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) tag: &'static str,
    /// What it does, in a sentence.
    pub(super) summary: &'static str,
    pub(super) parameters: Vec<Parameter>,
    /// What to send, and whether it must be sent.
    pub(super) body: Option<(Value, bool)>,
    pub(super) answers: Vec<OperationAnswer>,
}

/// A part of the path or of the query.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) is_path: bool,
    pub(super) is_required: bool,
    pub(super) about: &'static str,
    pub(super) schema: Value,
}

/// What a status means.
pub(super) struct OperationAnswer {
    pub(super) status: u16,
    pub(super) about: &'static str,
    /// Kind and schema, if there is a body.
    pub(super) content: Option<(&'static str, Value)>,
}

impl Operation {
    pub(super) fn new(
        method: Method,
        path: &'static str,
        tag: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            method,
            path,
            tag,
            summary,
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
        }
    }

    /// A part of the path.
    pub(super) fn named(mut self, name: &'static str, about: &'static str) -> Self {
        self.parameters.push(Parameter {
            name,
            is_path: true,
            is_required: true,
            about,
            schema: json!({ "type": "string", "minLength": 1 }),
        });
        self.refused(404, "Nothing has that name")
    }

    /// A part of the query that may be left out.
    pub(super) fn query(mut self, name: &'static str, schema: Value, about: &'static str) -> Self {
        self.parameters.push(Parameter {
            name,
            is_path: false,
            is_required: false,
            about,
            schema,
        });
        self
    }

    /// A part of the query that is needed.
    pub(super) fn needs(self, name: &'static str, schema: Value, about: &'static str) -> Self {
        let mut operation = self.query(name, schema, about);
        if let Some(last) = operation.parameters.last_mut() {
            last.is_required = true;
        }
        operation
    }

    /// A page of a list.
    pub(super) fn paged(self) -> Self {
        let whole = json!({ "type": "integer", "minimum": 1, "maximum": 100_000 });
        let paged = self.query("limit", whole, "The length of the page");
        paged.query(
            "after",
            json!({ "type": "string" }),
            "The `next` of the page before",
        )
    }

    /// About all nodes of a cluster.
    pub(super) fn across_nodes(self) -> Self {
        let about = "In a cluster: what this node has, instead of what all have";
        let asked = self.query("node", json!({ "type": "string" }), about);
        match asked.answers.iter().any(|answer| answer.status == 404) {
            true => asked,
            false => asked.refused(404, "No node of the cluster that lives has that name"),
        }
    }

    /// A list that is cut.
    pub(super) fn limited(self) -> Self {
        let whole = json!({ "type": "integer", "minimum": 1, "maximum": 100_000 });
        self.query("limit", whole, "How many at most")
    }

    pub(super) fn sends(mut self, schema: Value) -> Self {
        self.body = Some((schema, true));
        self.refused(413, "The body is too long")
    }

    pub(super) fn may_send(mut self, schema: Value) -> Self {
        self.body = Some((schema, false));
        self.refused(413, "The body is too long")
    }

    pub(super) fn gives(self, status: u16, about: &'static str, schema: Value) -> Self {
        self.gives_as("application/json", status, about, schema)
    }

    pub(super) fn gives_as(
        mut self,
        kind: &'static str,
        status: u16,
        about: &'static str,
        schema: Value,
    ) -> Self {
        self.answers.push(OperationAnswer {
            status,
            about,
            content: Some((kind, schema)),
        });
        self
    }

    /// An answer without a body.
    pub(super) fn done(mut self, status: u16, about: &'static str) -> Self {
        self.answers.push(OperationAnswer {
            status,
            about,
            content: None,
        });
        self
    }

    pub(super) fn refused(self, status: u16, about: &'static str) -> Self {
        let schema = Schemas::reference("Problem");
        self.gives_as(
            crate::web::protocol::problem::CONTENT_TYPE,
            status,
            about,
            schema,
        )
    }
}
