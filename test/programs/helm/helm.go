// Package helm is the part of Helm's command line that the documents and the console
// show, on Helm's own library: its releases, hooks, waiting and registries.
//
// It refuses every other word, so that none is shown that is not tried. Helm's own
// package with all of its commands needs modules that nothing else here does.
package helm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/getter"
	helmkube "helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/registry"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	"sigs.k8s.io/yaml"
)

// program is one call of it.
type program struct {
	settings *cli.EnvSettings
	config   *action.Configuration
	values   values.Options
	version  string
	timeout  time.Duration
	wait     bool
}

// Main runs a command line without its first word, and gives its exit code.
func Main(words []string) int {
	helmkube.ManagedFieldsManager = "helm" // the name of the program
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	h := &program{settings: cli.New(), config: action.NewConfiguration()}
	namespace := ""
	root := &cobra.Command{Use: "helm", SilenceUsage: true, PersistentPreRunE: func(*cobra.Command, []string) error {
		if namespace != "" {
			h.settings.SetNamespace(namespace)
		}
		return h.open()
	}}
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVarP(&namespace, "namespace", "n", "", "")
	root.AddCommand(h.upgrade(), h.history(), h.rollback(), h.list(), h.get())
	root.SetArgs(words)
	root.SetOut(os.Stdout)
	if err := root.ExecuteContext(ctx); err != nil { // which has printed it
		return 1
	}
	return 0
}

func (h *program) open() error {
	if err := h.config.Init(h.settings.RESTClientGetter(), h.settings.Namespace(), os.Getenv("HELM_DRIVER")); err != nil {
		return err
	}
	client, err := registry.NewClient(registry.ClientOptCredentialsFile(h.settings.RegistryConfig))
	h.config.RegistryClient = client
	return err
}

func (h *program) strategy() helmkube.WaitStrategy {
	if h.wait {
		return helmkube.StatusWatcherStrategy
	}
	return helmkube.HookOnlyStrategy
}

func (h *program) addWait(command *cobra.Command) {
	command.Flags().BoolVar(&h.wait, "wait", false, "")
	command.Flags().DurationVar(&h.timeout, "timeout", 5*time.Minute, "")
}

func (h *program) upgrade() *cobra.Command {
	client := action.NewUpgrade(h.config)
	install, createNamespace := false, false
	command := &cobra.Command{Use: "upgrade RELEASE CHART", Args: cobra.ExactArgs(2)}
	flags := command.Flags()
	flags.BoolVarP(&install, "install", "i", false, "")
	flags.BoolVar(&createNamespace, "create-namespace", false, "")
	flags.BoolVar(&client.SkipCRDs, "skip-crds", false, "")
	flags.BoolVar(&client.ResetThenReuseValues, "reset-then-reuse-values", false, "")
	flags.StringVar(&h.version, "version", "", "")
	flags.StringArrayVarP(&h.values.ValueFiles, "values", "f", nil, "")
	flags.StringArrayVar(&h.values.Values, "set", nil, "")
	flags.StringArrayVar(&h.values.StringValues, "set-string", nil, "")
	h.addWait(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		client.Namespace, client.Version, client.Timeout, client.WaitStrategy = h.settings.Namespace(), h.version, h.timeout, h.strategy()
		client.SetRegistryClient(h.config.RegistryClient)
		if _, err := action.NewHistory(h.config).Run(args[0]); install && errors.Is(err, driver.ErrReleaseNotFound) {
			return h.install(command.Context(), args, client, createNamespace)
		}
		loaded, given, err := h.read(&client.ChartPathOptions, args[1])
		if err != nil {
			return err
		}
		if _, err := client.RunWithContext(command.Context(), args[0], loaded, given); err != nil {
			return fmt.Errorf("UPGRADE FAILED: %w", err)
		}
		command.Printf("Release %q has been upgraded.\n", args[0])
		return nil
	}
	return command
}

func (h *program) install(ctx context.Context, args []string, upgrade *action.Upgrade, createNamespace bool) error {
	client := action.NewInstall(h.config)
	client.ReleaseName, client.Namespace, client.CreateNamespace, client.Version = args[0], h.settings.Namespace(), createNamespace, h.version
	client.SkipCRDs, client.Timeout, client.WaitStrategy = upgrade.SkipCRDs, h.timeout, h.strategy()
	client.SetRegistryClient(h.config.RegistryClient)
	loaded, given, err := h.read(&client.ChartPathOptions, args[1])
	if err != nil {
		return err
	}
	made, err := client.RunWithContext(ctx, loaded, given)
	if err != nil {
		return fmt.Errorf("INSTALLATION FAILED: %w", err)
	}
	if typed, ok := made.(*helmrelease.Release); ok {
		fmt.Printf("NAME: %s\nSTATUS: %s\nREVISION: %d\nNOTES:\n%s\n", typed.Name, typed.Info.Status, typed.Version, typed.Info.Notes)
	}
	return nil
}

// read finds the chart and the values.
func (h *program) read(from *action.ChartPathOptions, name string) (chart.Charter, map[string]any, error) {
	path, err := from.LocateChart(name, h.settings)
	if err != nil {
		return nil, nil, err
	}
	loaded, err := loader.Load(path)
	if err != nil {
		return nil, nil, err
	}
	given, err := h.values.MergeValues(getter.All(h.settings))
	return loaded, given, err
}

func (h *program) history() *cobra.Command {
	return &cobra.Command{Use: "history RELEASE", Args: cobra.ExactArgs(1), RunE: func(command *cobra.Command, args []string) error {
		found, err := action.NewHistory(h.config).Run(args[0])
		if err != nil {
			return err
		}
		for _, one := range found {
			if typed, ok := one.(*helmrelease.Release); ok {
				command.Printf("%d\t%s\t%s\n", typed.Version, typed.Info.Status, typed.Info.Description)
			}
		}
		return nil
	}}
}

func (h *program) list() *cobra.Command {
	return &cobra.Command{Use: "list", Args: cobra.NoArgs, RunE: func(command *cobra.Command, _ []string) error {
		client := action.NewList(h.config)
		client.SetStateMask()
		found, err := client.Run()
		if err != nil {
			return err
		}
		for _, one := range found {
			if typed, ok := one.(*helmrelease.Release); ok {
				command.Printf("%s\t%s\t%d\t%s\n", typed.Name, typed.Namespace, typed.Version, typed.Info.Status)
			}
		}
		return nil
	}}
}

// get is helm get values.
func (h *program) get() *cobra.Command {
	output := ""
	given := &cobra.Command{Use: "values RELEASE", Args: cobra.ExactArgs(1), RunE: func(command *cobra.Command, args []string) error {
		found, err := action.NewGetValues(h.config).Run(args[0])
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(found)
		if err != nil {
			return err
		}
		if output != "yaml" { // for people
			command.Println("USER-SUPPLIED VALUES:")
		}
		command.Print(string(text))
		return nil
	}}
	given.Flags().StringVarP(&output, "output", "o", "table", "")
	command := &cobra.Command{Use: "get"}
	command.AddCommand(given)
	return command
}

func (h *program) rollback() *cobra.Command {
	client := action.NewRollback(h.config)
	command := &cobra.Command{Use: "rollback RELEASE REVISION", Args: cobra.ExactArgs(2)}
	h.addWait(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		revision, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		client.Version, client.Timeout, client.WaitStrategy = revision, h.timeout, h.strategy()
		if err := client.Run(args[0]); err != nil {
			return err
		}
		command.Println("Rollback was a success!")
		return nil
	}
	return command
}
