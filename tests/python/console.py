"""The console by psycopg, which speaks the extended protocol: says each thing's name when it has worked."""
import sys

import psycopg
from psycopg.rows import dict_row

done = []
with psycopg.connect(sys.argv[1], autocommit=True, row_factory=dict_row) as connection:
    for what in ("pools", "workers", "fleet"):
        rows = connection.execute(f"show {what}").fetchall()
        assert isinstance(rows, list), rows
        done.append(what)
    assert [row["slot"] for row in connection.execute("show workers", prepare=True)] == [1, 2]
    connection.execute("set client_encoding = 'UTF8'")
    done.append("set")
    try:
        connection.execute("fly away")
    except psycopg.Error as error:
        assert error.sqlstate == "08P01", error.sqlstate
        done.append("error")
    assert len(connection.execute("show workers").fetchall()) == 2
print(*done)
