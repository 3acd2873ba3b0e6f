// Command helm is Helm for the tests of the console: the words of
// `helm upgrade --install` that the console shows, done by Helm's own library.
//
// It promises what Helm does with these words: the chart comes from its registry, hooks
// run, the release is kept in the cluster, and --wait ends when everything is ready.
// It refuses every other word, so that the console cannot show one that is not tried.
// Helm's own program is not built here, because it needs modules that nothing else
// of this repository does.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/registry"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// defaultTimeout is how long Helm waits when nobody says.
const defaultTimeout = 5 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "helm", SilenceUsage: true, SilenceErrors: true}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(upgradeCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// upgrade is one call of helm upgrade.
type upgrade struct {
	settings        *cli.EnvSettings
	config          *action.Configuration
	values          values.Options
	version         string
	namespace       string
	install, create bool
	wait            bool
	timeout         time.Duration
}

func upgradeCommand() *cobra.Command {
	u := &upgrade{settings: cli.New()}
	command := &cobra.Command{
		Use: "upgrade RELEASE CHART", Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, words []string) error {
			return u.run(command.Context(), words[0], words[1])
		},
	}
	flags := command.Flags()
	flags.BoolVarP(&u.install, "install", "i", false, "install the release when there is none")
	flags.BoolVar(&u.create, "create-namespace", false, "make the namespace when there is none")
	flags.StringVarP(&u.namespace, "namespace", "n", "", "namespace of the release")
	flags.StringArrayVar(&u.values.Values, "set", nil, "value")
	flags.StringArrayVar(&u.values.StringValues, "set-string", nil, "value that is a text")
	flags.StringVar(&u.version, "version", "", "version of the chart")
	flags.BoolVar(&u.wait, "wait", false, "wait until everything is ready")
	flags.DurationVar(&u.timeout, "timeout", defaultTimeout, "how long to wait")
	return command
}

func (u *upgrade) run(ctx context.Context, name, chart string) error {
	u.settings.SetNamespace(u.namespace)
	log := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
	u.config = action.NewConfiguration(action.ConfigurationSetLogger(log))
	client, err := registry.NewClient(registry.ClientOptWriter(os.Stderr), registry.ClientOptCredentialsFile(u.settings.RegistryConfig))
	if err != nil {
		return fmt.Errorf("the registry: %w", err)
	}
	u.config.RegistryClient = client
	if err := u.config.Init(u.settings.RESTClientGetter(), u.settings.Namespace(), os.Getenv("HELM_DRIVER")); err != nil {
		return err
	}
	history := action.NewHistory(u.config)
	history.Max = 1
	_, err = history.Run(name)
	switch {
	case errors.Is(err, driver.ErrReleaseNotFound) && u.install:
		return u.first(ctx, name, chart)
	case err != nil:
		return err
	}
	return u.next(ctx, name, chart)
}

// strategy is what --wait means; without it Helm waits for hooks.
func (u *upgrade) strategy() kube.WaitStrategy {
	if u.wait {
		return kube.StatusWatcherStrategy
	}
	return kube.HookOnlyStrategy
}

// first installs the release.
func (u *upgrade) first(ctx context.Context, name, chart string) error {
	install := action.NewInstall(u.config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = name, u.settings.Namespace(), u.create
	install.WaitStrategy, install.Timeout, install.Version = u.strategy(), u.timeout, u.version
	loaded, given, err := u.load(chart, &install.ChartPathOptions)
	if err != nil {
		return err
	}
	fmt.Printf("Release %q does not exist. Installing it now.\n", name)
	_, err = install.RunWithContext(ctx, loaded, given)
	return err
}

// next is another revision of the release.
func (u *upgrade) next(ctx context.Context, name, chart string) error {
	change := action.NewUpgrade(u.config)
	change.Namespace, change.WaitStrategy, change.Timeout, change.Version = u.settings.Namespace(), u.strategy(), u.timeout, u.version
	loaded, given, err := u.load(chart, &change.ChartPathOptions)
	if err != nil {
		return err
	}
	_, err = change.RunWithContext(ctx, name, loaded, given)
	return err
}

// load fetches the chart from where it is, and puts the values together.
func (u *upgrade) load(chart string, from *action.ChartPathOptions) (*chartv2.Chart, map[string]any, error) {
	path, err := from.LocateChart(chart, u.settings)
	if err != nil {
		return nil, nil, err
	}
	loaded, err := loader.Load(path)
	if err != nil {
		return nil, nil, err
	}
	given, err := u.values.MergeValues(getter.All(u.settings))
	return loaded, given, err
}
