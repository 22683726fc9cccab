//! The columns of the tables, each with its role. Those about a cluster stand with their commands.

/// Declares tables: for each column its role, unless it is that of a value, its title, and `wide` if only wide tables have it.
macro_rules! tables {
    ($($table:ident: $($($role:ident)? $title:literal $($wide:ident)?),+;)+) => {
        $(
            #[allow(clippy::needless_update, reason = "a column may state all of its fields")]
            pub(in crate::cli) const $table: $crate::cli::render::grid::Table<{ [$($title),+].len() }> = {
                use $crate::cli::render::grid::{Column, Role, Table};
                Table([$(Column { title: $title, $(role: Role::$role,)? $($wide: true,)? ..Column::VALUE }),+])
            };
        )+

        /// Each table, with its name.
        #[cfg(test)]
        pub(in crate::cli) const TABLES: &[(&str, &[$crate::cli::render::grid::Column])] =
            &[$((stringify!($table), &$table.0)),+];
    };
}
pub(in crate::cli) use tables;

tables! {
    // What is removed and kept on a node.
    PLAN: "KIND", Id "ID", Name "NAME", Holder "POD", Detail "AGE", "SIZE", Reason "WHY";
    REMOVED: "KIND", Id "ID", Name "NAME", Holder "POD", "OUTCOME", "FREED", Reason "WHY";
    REMOVED_BY_KIND: "KIND", "REMOVED", "WOULD REMOVE", Detail "ALREADY REMOVED", "REFUSED", "FAILED",
        Detail "NOT NEEDED", "FREED";
    LISTED: Name "IMAGE", "RESULT", "FREED", Reason "WHY";
    REMOVALS: Time "TIME", Detail "KIND", Id "ID", Name "NAME", Holder "POD", "OUTCOME", "ESTIMATED" wide, "FREED",
        Reason "WHY";
    RUNS: "RUN", Time "STARTED", Detail "TOOK", Detail "SCOPE", "REMOVED", "ALREADY REMOVED" wide, "REFUSED" wide,
        "FAILED", "FREED", Detail "TRIGGER", Reason "ERROR";
    SUMS: "DAY", "KIND", "REMOVED", "FREED", Detail "PULLED AGAIN", Reason "WHY";
    UNDO: Name "IMAGE", Id "ID", Time "REMOVED", Time "EXPIRES", "RESTORED";
    LAB: Name "SETTINGS", "PEAK", Detail "ABOVE HIGH", Detail "EVICTION", "REMOVED", "PULLED AGAIN",
        Detail "PULL TIME";

    // What fills a node.
    IMAGES: Name "NAME", Id "ID", "SIZE", "REPORTED" wide, "FIRST SEEN" wide, Detail "LAST USED", Holder "USED BY",
        Detail "TAGS" wide, Detail "PINNED" wide, Reason "DECISION";
    DISK: Name "WHAT", "SIZE", "OF DISK", Detail "OBJECTS", "INODES" wide;
    DISK_LARGEST: Name "LARGEST BESIDES THE RUNTIME", Holder "HELD BY", "SIZE", Reason "WHAT", "INODES" wide;
    DISK_IMAGES: Name "IMAGE", Id "ID", "SIZE", "HOLDS ALONE", Reason "STATE", "INODES ALONE" wide;
    DISK_SHARED: Name "HELD TOGETHER BY", "SIZE", Reason "STATE", "INODES" wide;
    DISK_LAYERS: Name "WRITABLE LAYER OF", Id "ID", "SIZE", "INODES" wide;
    DISK_OTHERS: Name "NOT LISTED BY THE CRI", Detail "NAMESPACE", Holder "HELD BY", "SIZE", Detail "AGE",
        "INODES" wide;
    DISK_BY_POD: Name "POD", "SIZE", Detail "LAYERS", "VOLUMES", "LOGS", Detail "OTHER", Detail "LARGEST VOLUME";
    DISK_BY_NAMESPACE: Name "NAMESPACE", Detail "PODS", "SIZE", Detail "LAYERS", "VOLUMES", "LOGS", Detail "OTHER";
    LOGS: Name "POD", Id "UID" wide, Holder "CONTAINER", Detail "ATTEMPTS", Detail "FILES", "SIZE", "LAST WRITTEN",
        Detail "ENDED", Detail "EXIT", Detail "KEPT FOR";

    // The configuration.
    SETTINGS_IN_FORCE: Name "KEY", Reason "VALUE", Holder "ORIGIN";
    SETTINGS: Name "KEY", Holder "FLAG", Holder "DEFAULT", Reason "MEANING";
    RULES: Name "RULE", Detail "FOR", Detail "THEN", "OBJECTS", "SIZE", Detail "UNTIL", Reason "WHEN" wide,
        Reason "NOTE" wide;
}
