"""What psycopg does in the ways it has: says each one's name when it has worked."""
import sys

import psycopg

done = []
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute("create table psy (a int, b text)")

    # Seven times, so that psycopg starts to prepare the statement by itself.
    for number in range(7):
        row = connection.execute("select %s::int, %s::text", (number, "x" * number)).fetchone()
        assert row == (number, "x" * number), row
    done.append("rows")

    cursor = connection.cursor()
    cursor.executemany("insert into psy values (%s, %s)", [(n, str(n)) for n in range(500)])
    assert connection.execute("select count(*), sum(a) from psy").fetchone() == (500, 124750)
    done.append("batch")

    with connection.pipeline():
        cursors = [connection.execute("select %s::int * 2", (n,)) for n in range(50)]
        assert [c.fetchone()[0] for c in cursors] == [n * 2 for n in range(50)]
    done.append("pipeline")

    try:
        with connection.pipeline():
            connection.execute("select 1")
            connection.execute("select 1 / %s::int", (0,))
            connection.execute("select 2")
    except psycopg.errors.DivisionByZero:
        done.append("error")
    assert connection.execute("select 3").fetchone() == (3,)

    with connection.cursor().copy("copy psy from stdin") as copy:
        for number in range(1000):
            copy.write_row((1000 + number, "copied"))
    with connection.cursor().copy("copy (select a from psy order by a) to stdout") as copy:
        assert sum(1 for _ in copy.rows()) == 1500
    done.append("copy")

    with connection.transaction(), connection.cursor("named") as named:
        named.itersize = 100
        named.execute("select a from psy")
        assert sum(1 for _ in named) == 1500
    done.append("cursor")

    try:
        with connection.transaction():
            connection.execute("delete from psy")
            raise psycopg.Rollback()
    except psycopg.Rollback:
        pass
    assert connection.execute("select count(*) from psy").fetchone() == (1500,)
    done.append("transaction")
print(*done)
