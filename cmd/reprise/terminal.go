package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
)

// isTerminal reports whether a stream is a device of characters.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// keypresses hands over each key of a terminal as it is pressed, until restore is called; nil
// where stdin is none. Its goroutine ends with stdin: nothing else ends a read of a terminal.
func keypresses(stdin io.Reader) (keys <-chan byte, restore func()) {
	if !isTerminal(stdin) {
		return nil, func() {}
	}
	tty := stdin.(*os.File)
	saved, err := stty(tty, "-g")
	if err == nil {
		_, err = stty(tty, "-icanon", "-echo")
	}
	if err != nil { // no terminal, or a system without stty: there are no keys then
		return nil, func() {}
	}
	pressed := make(chan byte)
	over := make(chan struct{})
	go func() {
		defer close(pressed)
		var b [1]byte
		for {
			if _, err := tty.Read(b[:]); err != nil {
				return
			}
			select {
			case pressed <- b[0]:
			case <-over:
				return
			}
		}
	}()
	return pressed, func() {
		close(over)
		_, _ = stty(tty, saved) // what cannot be restored cannot be helped either
	}
}

// stty sets a terminal, or asks for its settings, in the words of POSIX.
func stty(tty *os.File, args ...string) (string, error) {
	cmd := exec.Command("stty", args...)
	cmd.Stdin = tty
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
