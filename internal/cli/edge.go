package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/edge/filetable"
	"slipway.dev/slipway/internal/edge/lastgood"
	"slipway.dev/slipway/internal/edge/overload"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/route"
)

// edgeSwitches are the flags of the command that are not options of the edge.
var edgeSwitches = []string{"help", "print-config"}

// routesMissing is why an edge that starts is not ready.
const routesMissing = "the first routes are not live yet"

// edgeParts is what the edge is given to work with.
type edgeParts struct {
	log     *slog.Logger
	metrics *observe.Metrics
	health  *observe.Health
	admin   *admin.Handler
	// version is what the program calls itself towards API servers, ACME servers
	// and collectors of traces.
	version string
}

// edgeRunner is runEdge, or what a test puts in its place.
type edgeRunner func(ctx context.Context, options *config.Edge, parts edgeParts) error

// runEdge is the data plane: it takes traffic until the context ends, and then
// finishes what it has begun. It declares in parts.health what must hold
// before traffic may come. The servers for health and admin run around it.
func runEdge(ctx context.Context, options *config.Edge, parts edgeParts) error {
	routes := parts.health.Condition("routes", routesMissing)
	points, err := entryPoints(options)
	if err != nil {
		return err
	}
	shared, err := sharedSecret(options.Shared.SecretFile)
	if err != nil {
		return err
	}
	witness, err := newEdgeWitness(ctx, options, points, parts)
	if err != nil {
		return err
	}
	defer witness.close(ctx)
	server, err := edge.New(ctx, edge.Options{
		EntryPoints:  points,
		MemoryLimit:  overload.Limit(),
		SharedSecret: shared,
		Observe:      witness.observe,
		Trace:        witness.trace(),
		Metrics:      edge.NewMetrics(parts.metrics.For("edge"), points),
		Log:          parts.log,
	})
	if err != nil {
		return err
	}
	parts.admin.Attach(server)
	// Routes are followed until the last request is answered: endpoints go while
	// the edge drains.
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	if err := startProviders(ctx, options, edgeProviders{
		server: server, witness: witness, parts: parts, ready: routes, following: following, beside: &beside,
	}); err != nil {
		server.Close()
		return err
	}
	for i, address := range server.Addresses() {
		parts.log.Info("entry point takes traffic", "entryPoint", points[i].Name, observe.KeyAddress, address.String())
	}
	routes.Met()
	beside.Go(func() { witness.reopen(ctx) })
	return server.Run(ctx)
}

// edgeProviders is what providers of routes are started with.
type edgeProviders struct {
	server  *edge.Server
	witness *edgeWitness
	parts   edgeParts
	// beside runs what goes on while the edge serves, until following ends.
	beside    *sync.WaitGroup
	following context.Context
	// ready is told what is missing.
	ready *observe.Condition
}

// startProviders returns when the first routes of each provider are live.
func startProviders(ctx context.Context, options *config.Edge, with edgeProviders) error {
	server, log := with.server, with.parts.log
	kept := func() { with.witness.keep(server.Table) }
	if options.Providers.File != nil {
		apply := func(table *route.Table) error {
			if err := server.Apply(table); err != nil {
				return err
			}
			kept()
			return nil
		}
		file, err := firstRoutes(options, apply, log)
		if err != nil {
			return err
		}
		if options.Providers.File.Watch {
			with.beside.Go(func() { file.Follow(with.following, apply, log) })
		}
	}
	if options.Providers.KubernetesIngress == nil {
		return nil
	}
	kube.LogTo(log)
	provider, err := newIngressProvider(options, server, with.parts)
	if err != nil {
		return err
	}
	provider.changed = kept
	with.beside.Go(func() { provider.run(with.following) })
	return provider.await(ctx, with.ready)
}

// firstRoutes puts the routes of the file in place, or those that were served
// last while the file cannot be used.
func firstRoutes(options *config.Edge, apply func(*route.Table) error, log *slog.Logger) (*filetable.File, error) {
	path := options.Providers.File.Filename
	file, table, err := filetable.Open(path)
	if err == nil {
		if err = apply(table); err != nil {
			err = fmt.Errorf("routes file %s: %w", path, err)
		}
	}
	if err == nil || options.LastGood.Dir == "" {
		return file, err
	}
	last, lastErr := lastgood.Load(options.LastGood.Dir)
	if lastErr == nil {
		lastErr = apply(partOf(last, false))
	}
	if lastErr != nil {
		return nil, errors.Join(err, fmt.Errorf("the routes served last: %w", lastErr))
	}
	log.Warn("the routes file cannot be used; the routes served last are live", "error", err)
	return file, nil
}

// edgeCommand parses its flags itself: an option may have a free name in it
// (entryPoints.<name>.address), and comes from a file and the environment too.
func edgeCommand(run edgeRunner) *cobra.Command {
	command := &cobra.Command{
		Use:   "edge [options]",
		Short: "Serve the traffic of a cluster",
		Long: `Serves HTTP traffic by routes that come from providers: the Ingresses of a
Kubernetes cluster, or a file. It runs until SIGINT or SIGTERM, then finishes
the requests that it has. A second signal ends it at once, with exit code 130.`,
		Example: `  slipway edge --providers.kubernetesIngress
  slipway edge --providers.file.filename=routes.yaml --entryPoints.web.address=:80
  slipway edge --configFile=edge.yaml --print-config`,
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true, // "[options]" says it
		RunE: func(command *cobra.Command, args []string) error {
			return startEdge(command, args, run)
		},
		ValidArgsFunction: completeRole(config.EdgeOptions),
	}
	command.SetHelpFunc(func(command *cobra.Command, _ []string) { printRoleHelp(command, config.EdgeOptions()) })
	command.AddCommand(edgeAdminCommands()...)
	return command
}

// edge loads the options and does what they ask for.
func startEdge(command *cobra.Command, args []string, run edgeRunner) error {
	environ := os.Environ()
	loaded, err := config.LoadEdge(config.Sources{
		Args:     args,
		Switches: edgeSwitches,
		Environ:  environ,
		Dirs:     config.SearchDirs(environ),
	})
	if loaded.Given["help"] {
		return command.Help()
	}
	if err != nil {
		return usageError{err}
	}
	options := loaded.Edge
	if err := options.Validate(); err != nil {
		return usageError{err}
	}
	if loaded.Given["print-config"] {
		text, err := options.YAML()
		if err != nil {
			return err
		}
		_, err = command.OutOrStdout().Write(text)
		return err
	}
	log, err := observe.NewLogger(command.ErrOrStderr(), options.Log.Level, options.Log.Format)
	if err != nil {
		return usageError{err}
	}
	if options.Providers.File == nil && options.Providers.KubernetesIngress == nil {
		return usageError{errors.New("no provider is enabled: set --providers.file.filename=… or --providers.kubernetesingress")}
	}
	logStart(log, "edge", loaded.File, options.Changes())
	return serveEdge(command.Context(), options, admin.Build(readBuildFacts()), log, run)
}

// logStart says what is starting, and every option that is not its default.
func logStart(log *slog.Logger, role, file string, changes []config.Change) {
	facts := readBuildFacts()
	log.Info(role+" starts", observe.KeyVersion, facts.Version, observe.KeyCommit, facts.Commit)
	if file != "" {
		log.Info("options come from a file", observe.KeyFile, file)
	}
	for _, change := range changes {
		log.Info("option is set", observe.KeyOption, change.Option, observe.KeyValue, change.Value)
	}
}

// serveEdge runs the data plane with its servers around it.
func serveEdge(ctx context.Context, options *config.Edge, build admin.Build, log *slog.Logger, run edgeRunner) error {
	parts := edgeParts{
		log: log, metrics: observe.NewMetrics(build.Version, build.Commit), health: &observe.Health{},
		admin: admin.New(build), version: build.Version,
	}
	return surroundings{
		role: "edge", admin: options.Admin.Address, health: options.Health.Address,
		mounts: []observe.Mount{{Prefix: admin.Prefix, Handler: parts.admin}},
		log:    log, metrics: parts.metrics, state: parts.health,
	}.run(ctx, func(running context.Context) error {
		return withTraffic(running, options, parts, func(serving context.Context) error { return run(serving, options, parts) })
	})
}

// completeRole completes the names of options for shells.
func completeRole(options func() []config.Option) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if strings.Contains(typed, "=") {
			return nil, cobra.ShellCompDirectiveDefault // a value, often a file
		}
		var found []cobra.Completion
		for _, option := range options() {
			flag := strings.ReplaceAll(option.Flag(), "<name>", "web") + "="
			if strings.HasPrefix(strings.ToLower(flag), strings.ToLower(typed)) {
				sentence, _, _ := strings.Cut(option.Description, ". ")
				found = append(found, cobra.CompletionWithDesc(flag, sentence))
			}
		}
		return found, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
}
