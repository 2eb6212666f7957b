//! The table of a comparison as a Parquet file (build feature `parquet`).
//!
//! One row group; every column is optional, because any value may be absent. Without the feature the option is
//! rejected before the first run.

use report::comparison::DataTable;

/// Fails, because the build feature is missing.
#[cfg(not(feature = "parquet"))]
pub(super) fn check() -> anyhow::Result<()> {
    anyhow::bail!(
        "--parquet: this evenkeel was built without Parquet: build it with --features parquet, or use --csv"
    )
}

/// Is unreachable, because [`check`] fails first.
#[cfg(not(feature = "parquet"))]
pub(super) fn bytes(_table: &DataTable) -> anyhow::Result<Vec<u8>> {
    check().map(|()| Vec::new())
}

#[cfg(feature = "parquet")]
pub(super) use enabled::{bytes, check};

#[cfg(feature = "parquet")]
mod enabled {
    use std::sync::Arc;

    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use report::comparison::DataValue;

    use super::DataTable;

    /// Succeeds, because the build feature is present.
    #[expect(clippy::unnecessary_wraps, reason = "without the feature it fails")]
    pub fn check() -> anyhow::Result<()> {
        Ok(())
    }

    /// Type of a column.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Kind {
        Text,
        Whole,
        Number,
    }

    /// Returns the type of the first present value of a column, or `Number` for a column without values.
    fn kind(table: &DataTable, column: usize) -> Kind {
        let first_value = table.rows.iter().find_map(|row| match row[column] {
            DataValue::Text(_) => Some(Kind::Text),
            DataValue::Whole(_) => Some(Kind::Whole),
            DataValue::Number(_) => Some(Kind::Number),
            DataValue::Absent => None,
        });
        first_value.unwrap_or(Kind::Number)
    }

    pub fn bytes(table: &DataTable) -> anyhow::Result<Vec<u8>> {
        let kinds: Vec<Kind> = (0..table.names.len()).map(|column| kind(table, column)).collect();
        let field = |(name, kind): (&String, &Kind)| match kind {
            Kind::Text => format!("optional binary {name} (UTF8);"),
            Kind::Whole => format!("optional int64 {name};"),
            Kind::Number => format!("optional double {name};"),
        };
        let fields: String = table.names.iter().zip(&kinds).map(field).collect();
        let schema = Arc::new(parse_message_type(&format!("message runs {{ {fields} }}"))?);
        let properties = Arc::new(WriterProperties::builder().build());
        let mut file = SerializedFileWriter::new(Vec::new(), schema, properties)?;
        let mut group = file.next_row_group()?;
        let mut column_idx = 0;
        while let Some(mut column) = group.next_column()? {
            let values = || table.rows.iter().map(|row| &row[column_idx]);
            let is_present: Vec<i16> =
                values().map(|value| i16::from(*value != DataValue::Absent)).collect();
            match kinds[column_idx] {
                Kind::Text => {
                    let texts = values().filter_map(|value| match value {
                        DataValue::Text(text) => Some(ByteArray::from(text.as_str())),
                        _ => None,
                    });
                    let texts: Vec<ByteArray> = texts.collect();
                    column.typed::<ByteArrayType>().write_batch(&texts, Some(&is_present), None)?;
                }
                Kind::Whole => {
                    let numbers = values().filter_map(|value| match value {
                        DataValue::Whole(number) => {
                            Some(i64::try_from(*number).unwrap_or(i64::MAX))
                        }
                        _ => None,
                    });
                    let numbers: Vec<i64> = numbers.collect();
                    column.typed::<Int64Type>().write_batch(&numbers, Some(&is_present), None)?;
                }
                Kind::Number => {
                    let numbers = values().filter_map(|value| match value {
                        DataValue::Number(number) => Some(*number),
                        _ => None,
                    });
                    let numbers: Vec<f64> = numbers.collect();
                    column.typed::<DoubleType>().write_batch(&numbers, Some(&is_present), None)?;
                }
            }
            column.close()?;
            column_idx += 1;
        }
        group.close()?;
        Ok(file.into_inner()?)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use parquet::file::reader::{FileReader, SerializedFileReader};

        #[test]
        fn absent_values_are_absent_after_reading_the_file() {
            let table = DataTable {
                names: ["policy", "seed", "slowdown"].map(str::to_owned).to_vec(),
                rows: vec![
                    vec![
                        DataValue::Text("dfs[a=1,b=2]".to_owned()),
                        DataValue::Whole(3),
                        DataValue::Absent,
                    ],
                    vec![
                        DataValue::Text("linux".to_owned()),
                        DataValue::Whole(4),
                        DataValue::Number(1.5),
                    ],
                ],
            };
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("t.parquet");
            std::fs::write(&path, bytes(&table).expect("a file")).expect("written");
            let file = std::fs::File::open(&path).expect("there");
            let reader = SerializedFileReader::new(file).expect("Parquet");
            let rows = reader.get_row_iter(None).expect("rows");
            let shown: Vec<String> = rows.map(|row| row.expect("a row").to_string()).collect();
            assert_eq!(
                shown,
                [
                    "{policy: \"dfs[a=1,b=2]\", seed: 3, slowdown: null}",
                    "{policy: \"linux\", seed: 4, slowdown: 1.5}"
                ]
            );
        }
    }
}
