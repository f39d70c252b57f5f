package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Of what a command writes to stderr, so much is in the log when it fails.
const keptError = 2 << 10 // bytes

// run calls a command: the event on its stdin, the scope in its environment. What it writes to
// stdout is thrown away. It fails with another exit code than 0.
func (k *hook) run(ctx context.Context, d delivery, base map[string]string) error {
	env, err := k.environment(d, base)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, k.Command[0], k.Command[1:]...)
	cmd.Env, cmd.Stdin = env, bytes.NewReader(d.body)
	var said tail
	cmd.Stderr = &said
	group(cmd)
	cmd.WaitDelay = time.Second                                           // what it has left running does not hold the next call up
	if err = cmd.Run(); err == nil || errors.Is(err, exec.ErrWaitDelay) { // it has ended well
		return nil
	}
	if text := strings.TrimSpace(string(said)); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// environment is the base, under what the operator sets, under the scope.
func (k *hook) environment(d delivery, base map[string]string) ([]string, error) {
	own := map[string]string{}
	if k.Env != nil {
		var err error
		if own, err = k.Env(); err != nil {
			return nil, err
		}
	}
	all := maps.Clone(base)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, own)
	maps.Copy(all, d.variables(k))
	var env []string
	for name, v := range all {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env, nil
}

// tail keeps the end of what is written.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	if over := len(*t) - keptError; over > 0 {
		*t = slices.Delete(*t, 0, over)
	}
	return len(b), nil
}
