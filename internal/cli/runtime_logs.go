package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

const (
	// logsTimeout bounds reading all logs of a runtime.
	logsTimeout = 10 * time.Minute
	// mostLogBytes bounds an archive.
	mostLogBytes = 2 << 30
)

// runtimeLogsCommand is `slipway runtime logs` (R118).
func runtimeLogsCommand(choice *platformChoice) *cobra.Command {
	wanted, path := &runtimev1.ComponentLogsRequest{}, ""
	command := &cobra.Command{
		Use:   "logs NAME",
		Short: "Read the logs of a runtime's own Pods",
		Long: `Reads the logs of a runtime: all of them as an archive in a file that only you can
read, or those of one component as lines.`,
		Example: `  slipway runtime logs prod --output prod.tar.gz
  slipway runtime logs prod --component agent --tail 1000`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.completeRuntimeArg,
	}
	flags := command.Flags()
	flags.StringVar(&wanted.Component, "component", "", "one component, as slipway runtime get lists them")
	flags.Int64Var(&wanted.TailLines, "tail", 0, "only so many last lines of each container (default what the runtime gives)")
	flags.StringVarP(&path, "output", "o", "", "file to write to; - is standard output (default NAME-logs-TIME.tar.gz, or standard output with --component)")
	command.RunE = withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
		if err := wire.RuntimeName(args[0]); err != nil {
			return usageError{err}
		}
		if path == "" {
			path = fmt.Sprintf("%s-logs-%s.tar.gz", args[0], time.Now().UTC().Format("20060102T150405Z"))
			if wanted.Component != "" {
				path = "-"
			}
		}
		ctx, cancel := context.WithTimeout(command.Context(), logsTimeout)
		defer cancel()
		copying := func(w io.Writer) error { return client.copyLogs(ctx, args[0], wanted, w) }
		if path == "-" {
			return copying(command.OutOrStdout())
		}
		if err := writePrivate(path, copying); err != nil {
			return err
		}
		note(command, "The logs are in %s.", path)
		return nil
	})
	return command
}

// copyLogs writes what a runtime sends.
func (c *platformClient) copyLogs(ctx context.Context, runtime string, wanted *runtimev1.ComponentLogsRequest, w io.Writer) error {
	stream, err := c.runtimeAPI(runtime).ComponentLogs(ctx, connect.NewRequest(wanted))
	if err != nil {
		return c.explain(ctx, err)
	}
	defer stream.Close()
	lines, total := &lineSink{w: w}, int64(0)
	for stream.Receive() {
		part := stream.Msg()
		if total += int64(len(part.GetData())); total > mostLogBytes {
			return fmt.Errorf("the logs have more than %d bytes: ask for fewer lines with --tail", int64(mostLogBytes))
		}
		if wanted.GetComponent() == "" {
			_, err = w.Write(part.GetData())
		} else {
			err = lines.line("["+part.GetPod()+"] ", string(part.GetData()))
		}
		if err != nil {
			return err
		}
	}
	return c.explain(ctx, stream.Err())
}

// writePrivate writes a file that only its owner can read. It is there when it is
// complete; another one of that name is not touched before.
func writePrivate(path string, write func(io.Writer) error) (err error) {
	if found, err := os.Lstat(path); err == nil && !found.Mode().IsRegular() {
		return usageError{fmt.Errorf("%s is there and is no file: choose another name", path)}
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
