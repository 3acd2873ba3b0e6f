package agentcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// joinPlatform adds the runtime options to given if a platform is configured,
// and otherwise leaves them nil: the agent then runs alone. The function that
// it returns removes the folder that was created for this run; it is never nil,
// also with an error.
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

// runtimeOptions converts validated options of the runtime. It reads the CA
// file, so a wrong path is a usage error at the start and not a failing
// connection later.
func runtimeOptions(given *agent.Options, options *config.Agent, registry *observe.Metrics) (*agent.RuntimeOptions, error) {
	authorities, err := files.ReadAuthorities(options.Platform.CAFile)
	if err != nil {
		return nil, exit.UsageError{Err: fmt.Errorf("platform.caFile: %w", err)}
	}
	made := &agent.RuntimeOptions{
		Name: options.Runtime.Name, Cluster: cmp.Or(options.Runtime.Cluster, kubeflags.HostOf(given.Cluster.Config.Host)),
		PlatformURL: options.Platform.URL, AccountID: options.Platform.AccountID, CAs: authorities, AllowPlainHTTP: options.Platform.AllowHTTP,
		Mode: accessMode(options.Access.Mode), AccessURL: options.Access.URL, IngressClass: options.Access.IngressClass,
		ConfigurationRuntime: options.Runtime.ConfigurationRuntime,
		Version:              buildinfo.Read().Version, ChartVersion: options.Runtime.ChartVersion, Metrics: agent.NewRuntimeMetrics(registry),
	}
	// A file wins over a Secret. Both are read at registration and not here, so
	// that a key that arrives late or is rotated is picked up.
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

// RuntimeChart returns a function that reads the chart of this version and the
// current values of the installation. It reads the values each time, because an
// upgrade mounts new ones. The runtime writes both to Git, from where a restore
// reads them.
func RuntimeChart(self config.RuntimeSelf) func(context.Context) (sharedrepo.Chart, error) {
	return func(context.Context) (sharedrepo.Chart, error) {
		chart := sharedrepo.Chart{Repository: self.ChartRepository, Version: self.ChartVersion, Release: self.Release}
		text, err := files.ReadBounded(self.ValuesFile, files.MaxBytes)
		if err != nil {
			return chart, err
		}
		if err := yaml.Unmarshal(text, &chart.Values); err != nil {
			// The decoder's message would quote the file, which may contain
			// secrets.
			return chart, fmt.Errorf("%s is not YAML", self.ValuesFile)
		}
		for _, group := range []string{"platform", "codefresh"} {
			referToToken(chart.Values, "global", group, "userToken")
		}
		chart.Archive, err = charts.Archive(charts.Runtime)
		return chart, err
	}
}

// referToToken replaces an API key in the values by a reference to the Secret that
// the chart has made of it. In Git there is no key, and an agent without either
// does not start.
func referToToken(values map[string]any, path ...string) {
	token, found, err := unstructured.NestedString(values, append(path, release.TokenKey)...)
	if err != nil || !found || token == "" {
		return
	}
	unstructured.RemoveNestedField(values, append(path, release.TokenKey)...)
	// The groups above exist, so that the field can be set.
	_ = unstructured.SetNestedMap(values, map[string]any{"name": release.TokenSecret, "key": release.TokenKey}, append(path, "secretKeyRef")...)
}

// accessMode converts the validated mode. An empty word is the tunnel, which is
// the default and needs no address that the platform can reach.
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

// runtimeFolder returns the configured state folder, or a temporary one, and
// the function that removes the temporary one at the end. Without state the
// runtime registers again at each start. A configured folder is created with
// mode 0700, because the credential of the runtime is in it.
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
