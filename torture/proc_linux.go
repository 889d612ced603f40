package main

import "syscall"

// withParent has the kernel end the gateway when the suite itself is killed.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
