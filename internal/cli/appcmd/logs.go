package appcmd

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// logFlags select the containers and lines of the logs.
type logFlags struct {
	container string
	// resources are selectors, see chooseResources; none means all objects.
	resources []string
	follow    bool
	previous  bool
	// tail is the number of lines per container; -1 is all.
	tail  int64
	since time.Duration
}

// appLogsCommand returns the command that prints logs of an Application's Pods.
// The default of 100 lines keeps an Application with many Pods readable.
func appLogsCommand(access *appAccess) *cobra.Command {
	given := &logFlags{tail: 100}
	command := &cobra.Command{
		Use:   "logs APP",
		Short: "Show the logs of an Application's Pods",
		Long: `Shows the logs of the containers of an Application's Pods. With several containers,
each line starts with the Pod and the container. With --follow it streams the logs of
the Pods that existed at the start, until Ctrl-C.`,
		Example: `  slipway app logs shop --tail 20
  slipway app logs shop -f -c web --resource apps:Deployment:web`,
		Args: oneName,
		RunE: access.with(func(command *cobra.Command, backend appBackend, app *application) error {
			err := backend.logs(command.Context(), app, given, command.OutOrStdout(), command.ErrOrStderr())
			if given.follow && errors.Is(err, context.Canceled) {
				return nil // Ctrl-C is how it ends
			}
			return err
		}),
	}
	flags := command.Flags()
	flags.StringVarP(&given.container, "container", "c", "", "only containers with this name")
	flags.StringArrayVar(&given.resources, "resource", nil, "only Pods of this object, as group:kind:name or group:kind:namespace/name; may be repeated")
	flags.BoolVarP(&given.follow, "follow", "f", false, "stream new log lines")
	flags.BoolVarP(&given.previous, "previous", "p", false, "logs of the containers before their last restart")
	flags.Int64Var(&given.tail, "tail", given.tail, "number of lines from the end of each log; -1 shows all")
	flags.DurationVar(&given.since, "since", 0, "only lines newer than this, such as 10m")
	return command
}

// chosen returns the keys of the objects whose Pods are selected; none means
// all.
func (f *logFlags) chosen(app *application) ([]tracking.Key, error) {
	selected, err := chooseResources(app, f.resources)
	if err != nil {
		return nil, err
	}
	var keys []tracking.Key
	for _, choice := range selected {
		keys = append(keys, tracking.Key{Group: choice.Group, Kind: choice.Kind, Namespace: choice.Namespace, Name: choice.Name})
	}
	return keys, nil
}

// logs implements appBackend. Streams with an end are printed one after the
// other in the order of Pods; followed ones as lines arrive. Each line has its
// Pod and container in front if there are several. Pods that start later are
// not followed.
func (c *appCluster) logs(ctx context.Context, app *application, given *logFlags, out, warnings io.Writer) error {
	// The Pods are the leaves of the tree, so that logs need no selector of the
	// workloads.
	tree, err := c.Tree(ctx, app, leftOut(warnings))
	if err != nil {
		return err
	}
	chosen, err := given.chosen(app)
	if err != nil {
		return err
	}
	pods, err := tree.Pods(chosen)
	if err != nil {
		return err
	}
	streams, err := inspect.Streams(app.ID(), pods, given.container, given.follow)
	if err != nil {
		return err
	}
	options := inspect.LogOptions{Follow: given.follow, Previous: given.previous, Tail: given.tail, Since: given.since}
	sink := &printer.Lines{W: out}
	// The first error cancels the other streams: a closed standard output must
	// end all of them.
	group, ctx := errgroup.WithContext(ctx)
	if !given.follow {
		// One at a time: logs of two Pods would interleave.
		group.SetLimit(1)
	}
	for _, stream := range streams {
		prefix := ""
		// A single stream is printed as it is, for pipes.
		if len(streams) > 1 {
			prefix = "[" + stream.Pod + "/" + stream.Container + "] "
		}
		group.Go(func() error {
			return c.ReadLog(ctx, stream, options, func(line inspect.LogLineOf) error { return sink.Write(prefix, line.Text) })
		})
	}
	return group.Wait()
}
