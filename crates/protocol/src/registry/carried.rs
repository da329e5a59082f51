//! Makes the group that the parameters ask for, with views or without, and gives it to a visitor.

use super::{About, Group, Params, SetupError, Visitor, with_views};
use crate::append::Append;
use crate::detector::Detector;
use crate::election::Election;
use crate::mutex::Mutex;
use crate::views;

type Make<P> = fn(&Params) -> Result<Group<P>, SetupError>;

pub fn mutex<P: Mutex, V: Visitor>(
    about: &'static About,
    params: &Params,
    visitor: V,
    group: Make<P>,
) -> Result<V::Output, SetupError> {
    let group = group(params)?;
    Ok(match views::are_wanted(params) {
        true => visitor.mutex(with_views(about), views::mutex(params, group)?),
        false => visitor.mutex(about, group),
    })
}

pub fn election<P: Election, V: Visitor>(
    about: &'static About,
    params: &Params,
    visitor: V,
    group: Make<P>,
) -> Result<V::Output, SetupError> {
    let group = group(params)?;
    Ok(match views::are_wanted(params) {
        true => visitor.election(with_views(about), views::election(params, group)?),
        false => visitor.election(about, group),
    })
}

pub fn detector<D: Detector, V: Visitor>(
    about: &'static About,
    params: &Params,
    visitor: V,
    group: Make<D>,
) -> Result<V::Output, SetupError> {
    Ok(visitor.detector(about, group(params)?))
}

pub fn append<P: Append, V: Visitor>(
    about: &'static About,
    params: &Params,
    visitor: V,
    group: Make<P>,
) -> Result<V::Output, SetupError> {
    Ok(visitor.append(about, group(params)?))
}
