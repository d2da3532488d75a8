"""Clients that never pause, until each has been let go once: prints what libpq saw of it."""

import sys
import threading

import psycopg

seen = []


def client():
    with psycopg.connect(sys.argv[1], autocommit=True, prepare_threshold=None) as connection:
        try:
            while True:
                connection.execute("select 1")
        except psycopg.Error as error:
            seen.append(error.sqlstate or str(error).splitlines()[0])


threads = [threading.Thread(target=client) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(seen), *sorted(set(seen)))
