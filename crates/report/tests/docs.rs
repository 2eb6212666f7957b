//! The page of fields and the JSON schemas in `docs/` are up to date. `UPDATE_EXPECT=1` updates them.

#[test]
fn the_page_of_fields_and_the_schemas_match_the_descriptions() {
    let check = |file: &str, text: &str| {
        let path = format!("{}/../../docs/{file}", env!("CARGO_MANIFEST_DIR"));
        expect_test::expect_file![path].assert_eq(text);
    };
    check("report-fields.md", &report::docs::fields_page());
    for (name, schema) in report::docs::schemas() {
        let text = base::json::to_indented(&schema).expect("JSON") + "\n";
        check(&format!("{name}.schema.json"), &text);
    }
}
