// Package agentcmd is the command slipway agent: it loads and checks the
// options, connects to the cluster, and runs internal/agent with the health and
// admin servers around it.
package agentcmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/agent"
	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/roleflags"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge/overload"
	"slipway.dev/slipway/internal/gitops/plugin"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/roleserver"
	"slipway.dev/slipway/internal/outbound"
)

// Command returns the command slipway agent. Cobra does not parse its flags:
// options also come from a file and the environment, and internal/config parses
// all three alike.
func Command() *cobra.Command {
	command := &cobra.Command{
		Use:   "agent [options]",
		Short: "Run the agent: deploy from Git to a cluster",
		Long: `Deploys the Applications of a Kubernetes cluster: it fetches Git, renders, applies,
prunes, waits for health, and writes the status of each. It runs until SIGINT or
SIGTERM, then finishes the running work and releases its Lease. A second signal
stops it at once, with exit code 130.`,
		Example: `  slipway agent
  slipway agent --applications.controlNamespace=argocd --sources.cacheDir=/var/lib/slipway/sources
  slipway agent --configFile=agent.yaml --print-config`,
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true, // Use has "[options]" already
		RunE:                  run,
		ValidArgsFunction:     roleflags.Complete(config.AgentOptions),
	}
	command.SetHelpFunc(func(command *cobra.Command, _ []string) { roleflags.PrintHelp(command, config.AgentOptions()) })
	return command
}

// agentGCPercent makes the garbage collector run more often than the default:
// most of an agent's memory lives as long as the process, such as the caches of
// its watches, and the peak of a burst should not be kept between bursts. GOGC
// overrides it.
const agentGCPercent = 30

// agentRequestsPerSecond and agentRequestBurst are the client-side rate limit
// of the agent.
const (
	// The limit only stops a loop that has gone wild, and is far above what a
	// reconcile needs: the API server protects itself with priority and
	// fairness.
	agentRequestsPerSecond = 2000
	agentRequestBurst      = 4000
)

// run loads and validates the options, and then prints help, prints the
// configuration, or runs the agent.
func run(command *cobra.Command, args []string) error {
	loaded, err := config.LoadAgent(roleflags.Sources(args))
	options := loaded.Agent
	if begins, err := roleflags.Begin(command, loaded, err, options); !begins {
		return err
	}
	log, err := observe.NewLogger(command.ErrOrStderr(), options.Log.Level, options.Log.Format)
	if err != nil {
		return exit.UsageError{Err: err}
	}
	roleflags.LogStart(log, "agent", loaded.File, options.Changes())
	// The user's own setting wins.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(agentGCPercent)
	}
	return serve(command.Context(), options, log)
}

// serve runs the agent with its health and admin servers until ctx ends. The
// client is built before the servers start, so that a wrong kubeconfig ends the
// process with a usage error and not with a Pod that never becomes ready.
func serve(ctx context.Context, options *config.Agent, log *slog.Logger) error {
	facts := buildinfo.Read()
	kube.LogTo(log)
	registry := observe.NewMetrics(facts.Version, facts.Commit)
	metrics := agent.NewMetrics(registry)
	cluster, err := kube.ConnectAs(
		kube.ConnectOptions{Endpoint: options.Kubernetes.Endpoint, Token: options.Kubernetes.Token, CAFile: options.Kubernetes.CertAuthFilePath},
		kube.Version(facts.Version), kube.Rate(agentRequestsPerSecond, agentRequestBurst),
		// Wraps the transport of every client of this cluster, so that all
		// requests to the API server are counted.
		func(config *rest.Config) { config.Wrap(metrics.Transport) },
	)
	if err != nil {
		return exit.UsageError{Err: fmt.Errorf("kubernetes: %w", err)}
	}
	defer cluster.Close()
	given, err := agentOptions(options)
	if err != nil {
		return err
	}
	given.Cluster, given.Log, given.Metrics, given.Health = cluster, log, metrics, &observe.Health{}
	return roleserver.Server{
		Role: "agent", Admin: options.Admin.Address, Health: options.Health.Address,
		Log: log, Metrics: registry, State: given.Health,
	}.Run(ctx, func(running context.Context) error {
		// Listens here and not in agent.Run: an address in use ends the process
		// before the agent takes part in leader election.
		given.Webhooks, err = roleserver.Listen(running, "webhooks.address", options.Webhooks.Address)
		if err != nil {
			return err
		}
		// Opened after the webhook listener: an agent that cannot listen must
		// not register.
		finish, err := joinPlatform(running, &given, options, registry)
		if err != nil {
			return errors.Join(err, given.Webhooks.Close())
		}
		// A replica that waits for the Lease has started now, the leader later.
		overload.DropTextPages()
		given.Listed = overload.DropTextPages
		// finish runs after the agent has stopped, because the runtime writes
		// to its state folder until then.
		return errors.Join(agent.Run(running, given), finish())
	})
}

// agentOptions converts validated options into those of internal/agent. Errors
// are joined; only the host name can really fail, because Validate has parsed
// the sizes before.
func agentOptions(options *config.Agent) (agent.Options, error) {
	memory, errMemory := config.ParseSize(options.Render.MemoryLimit)
	output, errOutput := config.ParseSize(options.Render.OutputLimit)
	index, errIndex := config.ParseSize(options.Sources.IndexLimit)
	perProject, errProject := config.ParseSize(options.Sources.DiskPerProject)
	disk, errDisk := config.ParseSize(options.Sources.DiskLimit)
	allowed, errAllowed := config.ParseNetworks(options.Outbound.Allow)
	identity, errIdentity := replicaName()
	given := agent.Options{
		ControlNamespace: options.Applications.ControlNamespace, Namespaces: options.Applications.Namespaces,
		Destinations: options.Applications.Destinations,
		Interval:     time.Duration(options.Applications.PollInterval), Jitter: time.Duration(options.Applications.PollJitter),
		Workers:  options.Applications.Workers,
		CacheDir: options.Sources.CacheDir, FetchTimeout: time.Duration(options.Sources.FetchTimeout),
		SourceLimits: source.Limits{IndexBytes: index, ProjectBytes: perProject, DiskBytes: disk},
		Outbound:     outbound.New(allowed...),
		Render: render.Options{
			Workers: options.Render.Workers, Timeout: time.Duration(options.Render.Timeout), MemoryBytes: memory, OutputBytes: output,
		},
		Plugins:       plugin.New(options.Plugins.SocketDir, time.Duration(options.Plugins.Timeout)),
		WebhookSecret: options.Webhooks.Secret, Identity: identity,
		Features: agent.Features{
			Division: agent.Division{Enabled: options.Applications.Divide, Lease: time.Duration(options.Applications.DivideTimeout)},
			Rollouts: options.Rollouts.Enabled, ImageUpdates: options.ImageUpdates.Enabled, ImageInterval: time.Duration(options.ImageUpdates.Interval),
		},
		Edges: agent.EdgeOptions{
			Addresses: options.Traffic.Edges, Port: options.Traffic.Port, Secret: options.Traffic.Secret, SecretFile: options.Traffic.SecretFile,
		},
	}
	if from := options.Sources.Credentials; from.PasswordFile != "" {
		given.Credential = &agent.FileCredential{URL: from.URL, Username: from.Username, File: from.PasswordFile}
	}
	// An empty Lease name disables leader election: this replica reconciles at
	// once.
	if options.LeaderElection.Enabled {
		given.Lease = options.LeaderElection.LeaseName
	}
	return given, errors.Join(errMemory, errOutput, errIndex, errProject, errDisk, errAllowed, errIdentity)
}

// replicaName returns the identity of this process in leader election: the host
// name, which in a cluster is the Pod's, and a random part. A restarted
// container of the same Pod is thereby another candidate and cannot take itself
// for the holder of the Lease that it held before.
func replicaName() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("the name of this machine: %w", err)
	}
	return host + "_" + rand.Text()[:8], nil
}
