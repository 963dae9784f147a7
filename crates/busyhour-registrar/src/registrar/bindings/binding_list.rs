//! A list of bindings, nearly always of one.

use crate::Binding;
use std::{
    ops::{Deref, DerefMut},
    slice, vec,
};

/// There may be a million of these lists, most with one binding, which needs no memory of its own here. An empty one is
/// `Many`: a third variant would need a word to tell which it is.
#[derive(Debug, Clone)]
pub(in crate::registrar) enum BindingList {
    One(Binding),
    Many(Box<[Binding]>),
}

impl Default for BindingList {
    fn default() -> Self {
        Self::Many(Box::default())
    }
}

impl From<Vec<Binding>> for BindingList {
    fn from(list: Vec<Binding>) -> Self {
        match <[Binding; 1]>::try_from(list) {
            Ok([binding]) => Self::One(binding),
            Err(list) => Self::Many(list.into()),
        }
    }
}

impl FromIterator<Binding> for BindingList {
    fn from_iter<I: IntoIterator<Item = Binding>>(bindings: I) -> Self {
        Vec::from_iter(bindings).into()
    }
}

impl IntoIterator for BindingList {
    type Item = Binding;
    type IntoIter = vec::IntoIter<Binding>;

    fn into_iter(self) -> Self::IntoIter {
        let list = match self {
            Self::One(binding) => vec![binding],
            Self::Many(list) => list.into_vec(),
        };
        list.into_iter()
    }
}

impl Deref for BindingList {
    type Target = [Binding];

    fn deref(&self) -> &[Binding] {
        match self {
            Self::One(binding) => slice::from_ref(binding),
            Self::Many(list) => list,
        }
    }
}

impl DerefMut for BindingList {
    fn deref_mut(&mut self) -> &mut [Binding] {
        match self {
            Self::One(binding) => slice::from_mut(binding),
            Self::Many(list) => list,
        }
    }
}

impl PartialEq for BindingList {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for BindingList {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_one_takes_no_more_than_a_binding() {
        assert_eq!((size_of::<Binding>(), size_of::<BindingList>()), (40, 40));
    }
}
