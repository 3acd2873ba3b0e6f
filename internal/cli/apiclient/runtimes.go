package apiclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// ListRuntimes returns all runtimes of the account.
func (c *Client) ListRuntimes(ctx context.Context) ([]*platformv1.Runtime, error) {
	return AllPages(func(page string) ([]*platformv1.Runtime, string, error) {
		response, err := Call(ctx, c, c.Runtimes().ListRuntimes, &platformv1.ListRuntimesRequest{PageSize: PageSize, PageToken: page})
		return response.GetRuntimes(), response.GetNextPageToken(), err
	})
}

// chosenRuntime returns the runtime that a command is for: that of the flag, of
// the environment, of the context, or the only one of the account. Only the
// last case sends a request.
func (c *Client) chosenRuntime(ctx context.Context) (string, error) {
	name := cmp.Or(c.namedRuntime, os.Getenv(RuntimeVariable), c.Runtime)
	if name != "" {
		if err := wire.RuntimeName(name); err != nil {
			return "", exit.UsageError{Err: err}
		}
		return name, nil
	}
	all, err := c.ListRuntimes(ctx)
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", errors.New("the account has no runtime yet: create one with slipway runtime install NAME --create-key")
	case len(all) == 1:
		return all[0].GetName(), nil
	}
	var names []string
	for _, one := range all {
		names = append(names, one.GetName())
	}
	slices.Sort(names)
	return "", exit.UsageError{Err: fmt.Errorf("the account has %d runtimes (%s): name one with --runtime, or run slipway config set-runtime NAME",
		len(names), printer.Printable(printer.ShortList(names)))}
}

// FindCluster returns the cluster of a runtime with a name or an address, or
// nil. An empty address matches none.
func (c *Client) FindCluster(ctx context.Context, runtime, name, server string) (*runtimev1.ManagedCluster, error) {
	all, err := Call(ctx, c, c.Clusters(runtime).ListClusters, &runtimev1.ListClustersRequest{})
	if err != nil {
		return nil, err
	}
	server = strings.TrimSuffix(server, "/")
	for _, one := range all.GetClusters() {
		if one.GetName() == name || server != "" && one.GetServer() == server {
			return one, nil
		}
	}
	return nil, nil
}

// PendingStep describes a step that a new runtime still needs, and the command
// for it. For a step that is newer than this program the command is to update
// it.
func PendingStep(step platformv1.CompletionStep, runtime string) (what, command string) {
	switch step {
	case platformv1.CompletionStep_COMPLETION_STEP_GIT_CREDENTIALS:
		return "Git credentials of the runtime", "slipway integration git set-runtime-token --runtime " + runtime + " --token-file FILE"
	case platformv1.CompletionStep_COMPLETION_STEP_USER_TOKEN:
		return "Git token of a user", "slipway integration git register default --runtime " + runtime + " --token-file FILE"
	case platformv1.CompletionStep_COMPLETION_STEP_RUNTIME_APPLICATION:
		return "Runtime as an Application", "slipway runtime configure " + runtime
	}
	return printer.EnumWord(step.String(), "COMPLETION_STEP_"), "update this program"
}

// CheckName refuses a name that a runtime cannot have, and proposes a free one.
func (c *Client) CheckName(ctx context.Context, name string) error {
	response, err := Call(ctx, c, c.Runtimes().CheckName, &platformv1.CheckNameRequest{Name: name})
	if err != nil {
		return err
	}
	if !response.GetFree() {
		return fmt.Errorf("%s: %s is free", printer.Printable(response.GetReason()), printer.Printable(response.GetProposal()))
	}
	return nil
}

// maxLogBytes bounds an archive of logs, which is written as it arrives and
// never held in memory.
const maxLogBytes = 2 << 30

// CopyLogs writes the logs of a runtime's components: an archive, or the lines
// of one component. It has no timeout besides ctx, because an archive of a busy
// runtime may take minutes.
func (c *Client) CopyLogs(ctx context.Context, runtime string, wanted *runtimev1.ComponentLogsRequest, w io.Writer) error {
	stream, err := c.RuntimeAPI(runtime).ComponentLogs(ctx, connect.NewRequest(wanted))
	if err != nil {
		return c.Explain(ctx, err)
	}
	defer stream.Close()
	lines, total := &printer.Lines{W: w}, int64(0)
	for stream.Receive() {
		part := stream.Msg()
		if total += int64(len(part.GetData())); total > maxLogBytes {
			return fmt.Errorf("the logs have more than %d bytes: request fewer lines with --tail", int64(maxLogBytes))
		}
		if wanted.GetComponent() == "" {
			_, err = w.Write(part.GetData())
		} else {
			err = lines.Write("["+part.GetPod()+"] ", string(part.GetData()))
		}
		if err != nil {
			return err
		}
	}
	return c.Explain(ctx, stream.Err())
}

// FindRuntime returns a runtime by name, or nil if the platform has no such
// runtime. A nil client has none.
func (c *Client) FindRuntime(ctx context.Context, name string) (*platformv1.Runtime, error) {
	if c == nil {
		return nil, nil
	}
	bounded, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	response, err := c.Runtimes().GetRuntime(bounded, connect.NewRequest(&platformv1.GetRuntimeRequest{Name: name}))
	switch {
	case err == nil:
		return response.Msg.GetRuntime(), nil
	case connect.IsWireError(err) && connect.CodeOf(err) == connect.CodeNotFound:
		return nil, nil
	}
	return nil, c.Explain(ctx, err)
}
