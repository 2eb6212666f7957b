//! Claims about the page of a study.

use super::*;

fn page(drawing: Drawing) -> Page {
    let cells = |row: [&str; 3]| row.map(str::to_owned).to_vec();
    let grid = Grid {
        title: "time saved in %".to_owned(),
        heads: cells(["workload", "the report", "ours"]),
        rows: vec![cells(["wl<1>", "-0.8 to +4.5", "+1.0±0.2"]), cells(["2", "–", "-0.5"])],
        drawing,
    };
    let claim = Judged {
        claim: "it <gains>".to_owned(),
        reading: "ours".to_owned(),
        found: "+1.0".to_owned(),
        verdict: "reproduces".to_owned(),
        mark: ("✓", "better"),
    };
    let part = Part {
        name: "fig-1".to_owned(),
        title: "a figure".to_owned(),
        facts: vec![("Source".to_owned(), "it is faster".to_owned())],
        grids: vec![grid],
        claims: vec![claim],
        notes: vec!["one run failed".to_owned()],
    };
    Page {
        title: "a paper".to_owned(),
        facts: vec!["2 seeds".to_owned()],
        origin: vec![("Command".to_owned(), "evenkeel reproduce <dfs>".to_owned())],
        warnings: vec!["stopped".to_owned()],
        parts: vec![part],
    }
}

#[test]
fn a_page_loads_nothing_and_escapes_what_it_is_told() {
    let html = page(Drawing::Intervals).to_html();
    let loads = ["<link", "src=", "@import", "url(", "https://"];
    assert!(html.contains("default-src 'none'") && loads.iter().all(|way| !html.contains(way)));
    assert!(html.contains("wl&lt;1&gt;") && html.contains("it &lt;gains&gt;"));
    assert!(!html.contains("<gains>"));
    assert!(html.contains("<dt>Command</dt><dd>evenkeel reproduce &lt;dfs&gt;</dd>"));
}

#[test]
fn a_drawing_stands_above_its_figures_and_says_in_words_what_colours_say() {
    for (drawing, sign) in [
        (Drawing::Intervals, "class=\"published\""),
        (Drawing::Bars, "class=\"bar s0\""),
        (Drawing::Lines, "class=\"line s1\""),
        (Drawing::Heat, "class=\"heat small\""),
    ] {
        let html = page(drawing).to_html();
        assert!(html.contains(sign), "{drawing:?}");
        assert!(html.contains("The figures") && html.contains("+1.0±0.2"), "{drawing:?}");
    }
    let plain = page(Drawing::None).to_html();
    assert!(!plain.contains("<svg class=\"plot\""));
    assert!(plain.contains("✓ reproduces") && plain.contains("✓ 1 reproduces"));
}

#[test]
fn a_table_without_rows_is_drawn_too() {
    for drawing in [Drawing::Intervals, Drawing::Bars, Drawing::Lines, Drawing::Heat] {
        let mut page = page(drawing);
        page.parts[0].grids[0].rows.clear();
        assert!(page.to_html().contains("time saved"), "{drawing:?}");
    }
}
