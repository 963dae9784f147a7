use super::{Arguments, alias, combine, moving, percent, select, shift, summarize, transform};
use crate::{Error, Series, functions::evaluator::Evaluator};

/// A function as it is called, checked and listed.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    /// Where editors list it.
    pub(crate) group: &'static str,
    /// What it does, in one sentence.
    pub(crate) help: &'static str,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) apply: Apply,
}

pub(crate) type Apply = fn(&mut Evaluator<'_>, &Arguments<'_>) -> Result<Vec<Series>, Error>;

/// One parameter of a function.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_required: bool,
    /// Whether the last one may come again and again.
    pub(crate) is_multiple: bool,
}

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Series,
    Number,
    Whole,
    Text,
    Flag,
    Aggregation,
    Interval,
    Width,
    Node,
    Any,
}

/// Every function, in the order of its group.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "sumSeries",
        aliases: &["sum"],
        group: COMBINE,
        help: "The sum of all series at each time",
        parameters: LISTS,
        apply: combine::sum,
    },
    Function {
        name: "averageSeries",
        aliases: &["avg"],
        group: COMBINE,
        help: "The mean of all series at each time",
        parameters: LISTS,
        apply: combine::average,
    },
    Function {
        name: "minSeries",
        aliases: &["min"],
        group: COMBINE,
        help: "The least value of all series at each time",
        parameters: LISTS,
        apply: combine::min,
    },
    Function {
        name: "maxSeries",
        aliases: &["max"],
        group: COMBINE,
        help: "The greatest value of all series at each time",
        parameters: LISTS,
        apply: combine::max,
    },
    Function {
        name: "diffSeries",
        aliases: &["diff"],
        group: COMBINE,
        help: "The first series less all others at each time",
        parameters: LISTS,
        apply: combine::diff,
    },
    Function {
        name: "aggregate",
        aliases: &[],
        group: COMBINE,
        help: "All series as one, by the aggregation named",
        parameters: &[LIST, required("func", Kind::Aggregation)],
        apply: combine::aggregate,
    },
    Function {
        name: "group",
        aliases: &[],
        group: COMBINE,
        help: "Several lists of series as one list",
        parameters: LISTS,
        apply: combine::group,
    },
    Function {
        name: "groupByNode",
        aliases: &[],
        group: COMBINE,
        help: "One series for all those with the same node at a place",
        parameters: &[
            LIST,
            required("nodeNum", Kind::Node),
            optional("callback", Kind::Aggregation),
        ],
        apply: combine::group_by_node,
    },
    Function {
        name: "groupByNodes",
        aliases: &[],
        group: COMBINE,
        help: "One series for all those with the same nodes at several places",
        parameters: &[
            LIST,
            required("callback", Kind::Aggregation),
            many("nodes", Kind::Node),
        ],
        apply: combine::group_by_nodes,
    },
    Function {
        name: "asPercent",
        aliases: &["pct"],
        group: COMBINE,
        help: "Each series as a part of a hundred of a total, or of their sum",
        parameters: &[
            LIST,
            optional("total", Kind::Any),
            many("nodes", Kind::Node),
        ],
        apply: percent::as_percent,
    },
    Function {
        name: "scale",
        aliases: &[],
        group: TRANSFORM,
        help: "Each value times a factor",
        parameters: &[LIST, required("factor", Kind::Number)],
        apply: transform::scale,
    },
    Function {
        name: "offset",
        aliases: &[],
        group: TRANSFORM,
        help: "Each value and a constant",
        parameters: &[LIST, required("factor", Kind::Number)],
        apply: transform::offset,
    },
    Function {
        name: "absolute",
        aliases: &[],
        group: TRANSFORM,
        help: "Each value without its sign",
        parameters: &[LIST],
        apply: transform::absolute,
    },
    Function {
        name: "derivative",
        aliases: &[],
        group: TRANSFORM,
        help: "The change from one value to the next",
        parameters: &[LIST],
        apply: transform::derivative,
    },
    Function {
        name: "nonNegativeDerivative",
        aliases: &[],
        group: TRANSFORM,
        help: "The growth of a counter, without its restarts",
        parameters: &[
            LIST,
            optional("maxValue", Kind::Number),
            optional("minValue", Kind::Number),
        ],
        apply: transform::non_negative_derivative,
    },
    Function {
        name: "perSecond",
        aliases: &[],
        group: TRANSFORM,
        help: "The growth of a counter in a second, without its restarts",
        parameters: &[
            LIST,
            optional("maxValue", Kind::Number),
            optional("minValue", Kind::Number),
        ],
        apply: transform::per_second,
    },
    Function {
        name: "integral",
        aliases: &[],
        group: TRANSFORM,
        help: "The sum of all values so far",
        parameters: &[LIST],
        apply: transform::integral,
    },
    Function {
        name: "keepLastValue",
        aliases: &[],
        group: TRANSFORM,
        help: "Gaps filled with the value before them",
        parameters: &[LIST, optional("limit", Kind::Any)],
        apply: transform::keep_last_value,
    },
    Function {
        name: "transformNull",
        aliases: &[],
        group: TRANSFORM,
        help: "Missing values replaced by a constant",
        parameters: &[LIST, optional("default", Kind::Number)],
        apply: transform::transform_null,
    },
    Function {
        name: "summarize",
        aliases: &[],
        group: TRANSFORM,
        help: "One value for each span of time",
        parameters: &[
            LIST,
            required("intervalString", Kind::Interval),
            optional("func", Kind::Aggregation),
            optional("alignToFrom", Kind::Flag),
        ],
        apply: summarize::summarize,
    },
    Function {
        name: "timeShift",
        aliases: &[],
        group: TRANSFORM,
        help: "What was there a while before",
        parameters: &[
            LIST,
            required("timeShift", Kind::Interval),
            optional("resetEnd", Kind::Flag),
            optional("alignDst", Kind::Flag),
        ],
        apply: shift::time_shift,
    },
    Function {
        name: "movingAverage",
        aliases: &[],
        group: CALCULATE,
        help: "The mean of the values before each point",
        parameters: MOVING,
        apply: moving::average,
    },
    Function {
        name: "movingMedian",
        aliases: &[],
        group: CALCULATE,
        help: "The median of the values before each point",
        parameters: MOVING,
        apply: moving::median,
    },
    Function {
        name: "movingSum",
        aliases: &[],
        group: CALCULATE,
        help: "The sum of the values before each point",
        parameters: MOVING,
        apply: moving::sum,
    },
    Function {
        name: "movingMin",
        aliases: &[],
        group: CALCULATE,
        help: "The least of the values before each point",
        parameters: MOVING,
        apply: moving::min,
    },
    Function {
        name: "movingMax",
        aliases: &[],
        group: CALCULATE,
        help: "The greatest of the values before each point",
        parameters: MOVING,
        apply: moving::max,
    },
    Function {
        name: "alias",
        aliases: &[],
        group: ALIAS,
        help: "Another name",
        parameters: &[LIST, required("newName", Kind::Text)],
        apply: alias::alias,
    },
    Function {
        name: "aliasByNode",
        aliases: &[],
        group: ALIAS,
        help: "Nodes of its path as the name",
        parameters: &[LIST, many("nodes", Kind::Node)],
        apply: alias::alias_by_node,
    },
    Function {
        name: "aliasByMetric",
        aliases: &[],
        group: ALIAS,
        help: "The last node of its path as the name",
        parameters: &[LIST],
        apply: alias::alias_by_metric,
    },
    Function {
        name: "sortBy",
        aliases: &[],
        group: SORTING,
        help: "In the order of an aggregation",
        parameters: &[
            LIST,
            optional("func", Kind::Aggregation),
            optional("reverse", Kind::Flag),
        ],
        apply: select::by,
    },
    Function {
        name: "sortByName",
        aliases: &[],
        group: SORTING,
        help: "In the order of their names",
        parameters: &[
            LIST,
            optional("natural", Kind::Flag),
            optional("reverse", Kind::Flag),
        ],
        apply: select::by_name,
    },
    Function {
        name: "sortByTotal",
        aliases: &[],
        group: SORTING,
        help: "The greatest sum first",
        parameters: &[LIST],
        apply: select::by_total,
    },
    Function {
        name: "sortByMaxima",
        aliases: &[],
        group: SORTING,
        help: "The greatest maximum first",
        parameters: &[LIST],
        apply: select::by_maxima,
    },
    Function {
        name: "sortByMinima",
        aliases: &[],
        group: SORTING,
        help: "The least minimum first",
        parameters: &[LIST],
        apply: select::by_minima,
    },
    Function {
        name: "limit",
        aliases: &[],
        group: FILTER,
        help: "The first few",
        parameters: &[LIST, required("n", Kind::Whole)],
        apply: select::limit,
    },
    Function {
        name: "highestCurrent",
        aliases: &[],
        group: FILTER,
        help: "Those with the highest last value",
        parameters: &[LIST, optional("n", Kind::Whole)],
        apply: select::highest_current,
    },
    Function {
        name: "highestAverage",
        aliases: &[],
        group: FILTER,
        help: "Those with the highest mean",
        parameters: &[LIST, optional("n", Kind::Whole)],
        apply: select::highest_average,
    },
    Function {
        name: "highestMax",
        aliases: &[],
        group: FILTER,
        help: "Those with the highest maximum",
        parameters: &[LIST, optional("n", Kind::Whole)],
        apply: select::highest_max,
    },
    Function {
        name: "removeEmptySeries",
        aliases: &[],
        group: FILTER,
        help: "Those that have values",
        parameters: &[LIST, optional("xFilesFactor", Kind::Number)],
        apply: select::remove_empty,
    },
    Function {
        name: "consolidateBy",
        aliases: &[],
        group: SPECIAL,
        help: "How values are brought together when there are more than asked for",
        parameters: &[LIST, required("consolidationFunc", Kind::Text)],
        apply: transform::consolidate_by,
    },
    Function {
        name: "cumulative",
        aliases: &[],
        group: SPECIAL,
        help: "Values brought together by their sum when there are more than asked for",
        parameters: &[LIST],
        apply: transform::cumulative,
    },
];

const LIST: Parameter = required("seriesList", Kind::Series);
const LISTS: &[Parameter] = &[Parameter {
    is_required: true,
    ..many("seriesLists", Kind::Series)
}];
const MOVING: &[Parameter] = &[
    LIST,
    required("windowSize", Kind::Width),
    optional("xFilesFactor", Kind::Number),
];

const COMBINE: &str = "Combine";
const TRANSFORM: &str = "Transform";
const CALCULATE: &str = "Calculate";
const ALIAS: &str = "Alias";
const SORTING: &str = "Sorting";
const FILTER: &str = "Filter Series";
const SPECIAL: &str = "Special";

const fn required(name: &'static str, kind: Kind) -> Parameter {
    Parameter {
        name,
        kind,
        is_required: true,
        is_multiple: false,
    }
}

const fn optional(name: &'static str, kind: Kind) -> Parameter {
    Parameter {
        name,
        kind,
        is_required: false,
        is_multiple: false,
    }
}

const fn many(name: &'static str, kind: Kind) -> Parameter {
    Parameter {
        name,
        kind,
        is_required: false,
        is_multiple: true,
    }
}
