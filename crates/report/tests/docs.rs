//! The pages that are made from the table of fields are up to date. `UPDATE_EXPECT=1` makes them again.

#[test]
fn the_page_of_fields_and_the_schema_are_those_of_the_program() {
    expect_test::expect_file!["../../../docs/report-fields.md"]
        .assert_eq(&report::docs::fields_page());
    let schema = serde_json::to_string_pretty(&report::docs::schema()).expect("JSON") + "\n";
    expect_test::expect_file!["../../../docs/report.schema.json"].assert_eq(&schema);
    let schema =
        serde_json::to_string_pretty(&report::docs::comparison_schema()).expect("JSON") + "\n";
    expect_test::expect_file!["../../../docs/compare.schema.json"].assert_eq(&schema);
}
