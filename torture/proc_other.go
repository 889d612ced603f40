//go:build !linux

package main

import "syscall"

// withParent has nothing to add where the kernel can't tie two processes.
func withParent() *syscall.SysProcAttr { return nil }

func apart() *syscall.SysProcAttr { return nil }
