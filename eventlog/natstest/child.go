package natstest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

// childVar has, in a process that is a server, which one it is.
const childVar = "NATSTEST_SERVER"

// place is one of the servers of a cluster.
type place struct {
	Dir   string
	Ports []int // those of clients, then those of the cluster
	Index int
}

// Child makes a server of a process that [StartProcesses] has started, until it is killed or who has started it is gone; in any other it returns
// at once. TestMain of whoever uses StartProcesses calls it first.
func Child() {
	text := os.Getenv(childVar)
	if text == "" {
		return
	}
	var p place
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		var s *server.Server
		if s, err = server.NewServer(p.options()); err == nil {
			s.Start()
			_, err = io.Copy(io.Discard, os.Stdin)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}
