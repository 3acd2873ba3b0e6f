package runtimecmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// logsTimeout bounds the stream of all logs of a runtime. It is longer than the
// timeout of requests, because archives can be large.
const logsTimeout = 10 * time.Minute

// runtimeLogsCommand reads the logs of a runtime's components (R118). The
// archive is a file with mode 0600, because logs may contain data for admins
// only. The runtime streams the logs through the platform.
func runtimeLogsCommand(choice *apiclient.Choice) *cobra.Command {
	wanted, path := &runtimev1.ComponentLogsRequest{}, ""
	command := &cobra.Command{
		Use:   "logs NAME",
		Short: "Show the logs of a runtime's own Pods",
		Long: `Downloads the logs of a runtime as an archive in a file that only you can read, or
prints those of one component.`,
		Example: `  slipway runtime logs prod --output prod.tar.gz
  slipway runtime logs prod --component agent --tail 1000`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.CompleteRuntimeArg,
	}
	flags := command.Flags()
	flags.StringVar(&wanted.Component, "component", "", "one component, as slipway runtime get lists them")
	flags.Int64Var(&wanted.TailLines, "tail", 0, "number of lines from the end of each container's log (default that of the runtime)")
	flags.StringVarP(&path, "output", "o", "", "file to write to; - is standard output (default NAME-logs-TIME.tar.gz, or standard output with --component)")
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		// The name is part of the request path and of the file name.
		if err := wire.RuntimeName(args[0]); err != nil {
			return exit.UsageError{Err: err}
		}
		// A default name includes the time, so that a second archive does not
		// replace the first.
		if path == "" {
			path = fmt.Sprintf("%s-logs-%s.tar.gz", args[0], time.Now().UTC().Format("20060102T150405Z"))
			if wanted.Component != "" {
				path = "-"
			}
		}
		// The timeout covers the whole stream, and Ctrl-C ends it earlier.
		ctx, cancel := context.WithTimeout(command.Context(), logsTimeout)
		defer cancel()
		copying := func(w io.Writer) error { return client.CopyLogs(ctx, args[0], wanted, w) }
		if path == "-" {
			return copying(command.OutOrStdout())
		}
		// On an error no partial file is left with that name.
		if err := files.WritePrivate(path, copying); err != nil {
			return err
		}
		printer.Note(command, "The logs are in %s.", path)
		return nil
	})
	return command
}
