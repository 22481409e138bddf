//! Data trees as texts of a configuration: RFC 7951 encoding without defaults.

use yang5::data::{
    Data, DataFormat, DataParserFlags, DataPrinterFlags, DataTree, DataValidationFlags,
};

use crate::error::{ValidationError, one};
use crate::fix;
use crate::libyang::{LibyangError, collect_errors};
use crate::schema::schema;

/// Parses a text in RFC 7951 encoding without validating it as a whole.
///
/// # Errors
/// The errors of libyang.
pub fn parse(text: &str) -> Result<DataTree<'static>, Vec<ValidationError>> {
    if text.contains('\0') {
        return Err(one("/", "the text holds a zero character", "Remove it."));
    }
    let flags =
        DataParserFlags::NO_VALIDATION | DataParserFlags::STRICT | DataParserFlags::NO_STATE;
    let none = DataValidationFlags::empty();
    let parse = || DataTree::parse_string(schema().context(), text, DataFormat::JSON, flags, none);
    let (tree, errors) = collect_errors(parse);
    tree.map_err(|error| invalid(&error, &errors))
}

/// The text of a configuration file.
///
/// # Errors
/// When libyang cannot print it.
pub fn print(tree: &DataTree<'_>) -> Result<String, Vec<ValidationError>> {
    let flags = DataPrinterFlags::WITH_SIBLINGS | DataPrinterFlags::WD_EXPLICIT;
    match tree.print_string(DataFormat::JSON, flags) {
        Ok(text) if text.is_empty() => Ok("{}\n".to_owned()),
        Ok(text) => Ok(text),
        Err(error) => Err(internal(&error)),
    }
}

/// The errors that libyang reported for data of a client.
pub fn invalid(error: &yang5::Error, reported: &[LibyangError]) -> Vec<ValidationError> {
    fix::of_call(schema().context(), error, reported)
}

/// An internal error of libyang.
pub fn internal(error: &yang5::Error) -> Vec<ValidationError> {
    let cause = format!("libyang: {}", error.msg.as_deref().unwrap_or("no message"));
    one("/", cause, "Report this with the configuration: it is a bug of Stoa.")
}

/// What libyang reported while a client's data was used, as validation errors.
pub fn errors(reported: &[LibyangError]) -> Vec<ValidationError> {
    fix::errors(schema().context(), reported)
}
