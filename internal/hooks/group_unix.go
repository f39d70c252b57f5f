//go:build unix

package hooks

import (
	"os/exec"
	"syscall"
)

// group makes the command the head of a process group, all of which ends with it when it is cut
// off.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
