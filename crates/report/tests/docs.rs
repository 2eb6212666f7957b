//! The pages that are made from the table of fields are up to date. `UPDATE_EXPECT=1` makes them again.

#[test]
fn the_page_of_fields_and_the_schema_are_those_of_the_program() {
    expect_test::expect_file!["../../../docs/report-fields.md"]
        .assert_eq(&report::docs::fields_page());
    let text = |schema| serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    expect_test::expect_file!["../../../docs/report.schema.json"]
        .assert_eq(&text(report::docs::schema()));
    expect_test::expect_file!["../../../docs/compare.schema.json"]
        .assert_eq(&text(report::docs::comparison_schema()));
    expect_test::expect_file!["../../../docs/reproduce.schema.json"]
        .assert_eq(&text(report::docs::study_schema()));
    expect_test::expect_file!["../../../docs/calibrate.schema.json"]
        .assert_eq(&text(report::docs::calibration_schema()));
}
