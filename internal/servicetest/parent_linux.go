package servicetest

import "syscall"

// withParent lets a child end with the test's process, even where that is killed or panics, so that no cleanup runs.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
