package agentcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/agent"
	"slipway.dev/slipway/internal/agent/join"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/roleserver"
)

// joinPlatform makes the agent a runtime, if a platform is given. The function
// deletes what was made for this run alone.
func joinPlatform(ctx context.Context, given *agent.Options, options *config.Agent, registry *observe.Metrics) (func() error, error) {
	nothing := func() error { return nil }
	if options.Platform.URL == "" {
		return nothing, nil
	}
	folder, finish, err := runtimeFolder(options.Platform.StateDir)
	if err != nil {
		return nothing, err
	}
	made, err := runtimeOptions(given, options, registry)
	if err == nil {
		made.Folder = folder
		made.Router, err = roleserver.Listen(ctx, "access.address", options.Access.Address)
	}
	if err != nil {
		return nothing, errors.Join(err, finish())
	}
	given.Runtime = made
	return finish, nil
}

// runtimeOptions are the options in the words of the agent. They are valid.
func runtimeOptions(given *agent.Options, options *config.Agent, registry *observe.Metrics) (*agent.RuntimeOptions, error) {
	authorities, err := files.ReadAuthorities(options.Platform.CAFile)
	if err != nil {
		return nil, exit.UsageError{Err: fmt.Errorf("platform.caFile: %w", err)}
	}
	metrics, err := agent.NewRuntimeMetrics(registry)
	if err != nil {
		return nil, err
	}
	made := &agent.RuntimeOptions{
		Name: options.Runtime.Name, Cluster: cmp.Or(options.Runtime.Cluster, kubeflags.HostOf(given.Cluster.Config.Host)),
		PlatformURL: options.Platform.URL, AccountID: options.Platform.AccountID, CAs: authorities, AllowPlainHTTP: options.Platform.AllowHTTP,
		Mode: accessMode(options.Access.Mode), AccessURL: options.Access.URL, IngressClass: options.Access.IngressClass,
		ConfigurationRuntime: options.Runtime.ConfigurationRuntime,
		Version:              buildinfo.Read().Version, ChartVersion: options.Runtime.ChartVersion, Metrics: metrics,
		Edges: agent.EdgeOptions{
			Addresses: options.Traffic.Edges, Port: options.Traffic.Port, Secret: options.Traffic.Secret, SecretFile: options.Traffic.SecretFile,
		},
	}
	switch {
	case options.Platform.KeyFile != "":
		made.Key = join.KeyFile(options.Platform.KeyFile)
	case options.Platform.KeySecret != "":
		made.Key = join.KeySecret(given.Cluster, given.ControlNamespace, options.Platform.KeySecret, release.TokenKey)
	}
	if options.Runtime.ValuesFile != "" {
		made.Chart = RuntimeChart(options.Runtime)
	}
	if options.Platform.WorkflowsURL != "" {
		if made.Workflows, err = url.Parse(options.Platform.WorkflowsURL); err != nil {
			return nil, exit.UsageError{Err: fmt.Errorf("platform.workflowsURL: %w", err)}
		}
	}
	return made, nil
}

// RuntimeChart is the chart of this version, with the values of the installation as
// they are when they are asked for.
func RuntimeChart(self config.RuntimeSelf) func(context.Context) (sharedrepo.Chart, error) {
	return func(context.Context) (sharedrepo.Chart, error) {
		chart := sharedrepo.Chart{Repository: self.ChartRepository, Version: self.ChartVersion, Release: self.Release}
		text, err := files.ReadBounded(self.ValuesFile)
		if err != nil {
			return chart, err
		}
		if err := yaml.Unmarshal(text, &chart.Values); err != nil {
			return chart, fmt.Errorf("%s is not YAML", self.ValuesFile) // what is in it may be secret
		}
		chart.Archive, err = charts.Archive(charts.Runtime)
		return chart, err
	}
}

func accessMode(word string) mode.Mode {
	switch word {
	case "ingress":
		return mode.Ingress
	case "httpRoute":
		return mode.HTTPRoute
	case "mesh":
		return mode.Mesh
	}
	return mode.Tunnel
}

// runtimeFolder is the folder that was named, or a new one that goes at the end.
func runtimeFolder(named string) (string, func() error, error) {
	if named == "" {
		folder, err := os.MkdirTemp("", "slipway-runtime-")
		return folder, func() error { return os.RemoveAll(folder) }, err
	}
	if err := os.MkdirAll(named, 0o700); err != nil {
		return "", nil, fmt.Errorf("make the folder of the runtime: %w: name another with platform.stateDir", err)
	}
	return named, func() error { return nil }, nil
}
