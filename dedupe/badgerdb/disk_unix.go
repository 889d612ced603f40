package badgerdb

import "syscall"

type unixStat = syscall.Stat_t
