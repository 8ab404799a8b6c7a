//! Plans of traversals as text.

use esker_engine::explain;
use esker_model::{Schema, Traversal};
use expect_test::{Expect, expect};

fn check(chain: &str, plan: &Expect) {
    let traversal = Traversal::parse(chain).unwrap();
    plan.assert_eq(
        &explain(&Schema::default(), &traversal).unwrap_or_else(|e| format!("error: {e}\n")),
    );
}

#[test]
fn a_lineage() {
    check(
        r#"v("file:/C").e("wasWrittenBy").v().e("read").v().repeat().return_fp()"#,
        &expect![[r#"
            start: 1 vertex by id
            repeat until nothing new is reached:
              hop 1: e("wasWrittenBy").v()
                edges wasWrittenBy: adjacency lists, from the cache or one range scan a vertex
                each vertex reached once
              hop 2: e("read").v()
                edges read: adjacency lists, from the cache or one range scan a vertex
                each vertex reached once
            return whole paths
        "#]],
    );
}

#[test]
fn filters_and_sets() {
    check(
        r#"v(type="DataObject").va("size", RANGE, 1, null).rtn().e("wasReadBy", "wasWrittenBy").ea("bytes", RANGE, 100, null).v().va("type", EQ, "Job").rtn()"#,
        &expect![[r#"
            start: index by type (dataobject, file, directory, executable, object)
              keep vertices where va("size", RANGE, 1, null)
              return this working set
            hop 1: e("wasReadBy", "wasWrittenBy").ea("bytes", RANGE, 100, null).v().va("type", EQ, "Job").rtn()
              edges wasReadBy, wasWrittenBy: one range scan a vertex, with properties
              keep edges where ea("bytes", RANGE, 100, null) (inside the scan)
              each vertex reached once
              keep vertices where va("type", EQ, "Job") (one row a vertex)
              return this working set
        "#]],
    );
}

#[test]
fn the_past_and_a_limit() {
    check(
        r#"v("user:1", "user:2").as_of("2026-03-01T12:00:00Z").e("run").v().repeat(max=3).limit(10)"#,
        &expect![[r#"
            start: 2 vertices by id
            read as of 2026-03-01T12:00:00.000Z~65535
            repeat at most 3 times:
              hop 1: e("run").v()
                edges run: adjacency lists, from the cache or one range scan a vertex
                each vertex reached once
            return the last working set
            stop at 10 vertices
        "#]],
    );
}

#[test]
fn names_that_the_schema_lacks() {
    check(
        r#"v("fiel:/C").e("read").v()"#,
        &expect![[r"
        error: unknown vertex type `fiel`; did you mean `File`?; the schema has: User, Execution, DataObject, Group, Job, Process, File, Directory, Executable, Object
    "]],
    );
    check(
        r#"v("file:/C").e("raed").v()"#,
        &expect![[r"
        error: unknown edge type `raed`; did you mean `read`?; the schema has: run, wasRunBy, belongs, contains, exe, exedBy, read, wasReadBy, write, wasWrittenBy, has, belongsTo, memberOf, hasMember
    "]],
    );
    check(
        r#"v(type="Jbo")"#,
        &expect![[r"
        error: unknown vertex type `Jbo`; did you mean `Job`?; the schema has: User, Execution, DataObject, Group, Job, Process, File, Directory, Executable, Object
    "]],
    );
    check(
        r#"v("file:/C").e("read").ea("type", RANGE, 1, 2).v()"#,
        &expect![[r"
        error: `type` has no order: filter it with EQ or IN
    "]],
    );
}
