#include <sqlite3.h>

/// Turns a feature of a database on or off. Swift calls no functions with a varying number of arguments.
static inline int larder_sqlite3_configure(sqlite3 *database, int feature, int isOn) {
    return sqlite3_db_config(database, feature, isOn, (int *)0);
}
