// Package helm implements the subset of Helm's command line that the
// documentation and the console show, on Helm's own library with its releases,
// hooks, waiting and registries.
//
// It rejects every other command and flag, so the documentation cannot show one
// that is untested. Helm's own command package is not used, because it needs
// modules that nothing else in this repository requires.
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

// program is one invocation. The flags of all commands share its fields, since
// only one command runs.
type program struct {
	settings *cli.EnvSettings
	config   *action.Configuration
	values   values.Options
	version  string
	timeout  time.Duration
	wait     bool
}

// Main runs a command line without the program's name and returns the exit
// code.
func Main(words []string) int {
	// The library derives the field manager from the name of the process, and
	// this one may be called differently.
	helmkube.ManagedFieldsManager = "helm"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	h := &program{settings: cli.New(), config: action.NewConfiguration()}
	namespace := ""
	// The configuration is opened after flags are parsed, because it depends on
	// the namespace.
	root := &cobra.Command{Use: "helm", SilenceUsage: true, PersistentPreRunE: func(*cobra.Command, []string) error {
		if namespace != "" {
			h.settings.SetNamespace(namespace)
		}
		return h.open()
	}}
	// Completion is a command as well, and not part of the subset.
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVarP(&namespace, "namespace", "n", "", "")
	root.AddCommand(h.upgrade(), h.history(), h.rollback(), h.list(), h.get())
	root.SetArgs(words)
	root.SetOut(os.Stdout)
	if err := root.ExecuteContext(ctx); err != nil { // cobra has printed it
		return 1
	}
	return 0
}

// open connects the configuration to the cluster and the registry client, with
// the settings of the environment: KUBECONFIG, HELM_DRIVER and the registry
// credentials.
func (h *program) open() error {
	if err := h.config.Init(h.settings.RESTClientGetter(), h.settings.Namespace(), os.Getenv("HELM_DRIVER")); err != nil {
		return err
	}
	client, err := registry.NewClient(registry.ClientOptCredentialsFile(h.settings.RegistryConfig))
	h.config.RegistryClient = client
	return err
}

// strategy returns how an action waits. Without --wait it waits for hooks only,
// as helm does.
func (h *program) strategy() helmkube.WaitStrategy {
	if h.wait {
		return helmkube.StatusWatcherStrategy
	}
	return helmkube.HookOnlyStrategy
}

// addWait adds the flags --wait and --timeout, with the defaults of helm.
func (h *program) addWait(command *cobra.Command) {
	command.Flags().BoolVar(&h.wait, "wait", false, "")
	command.Flags().DurationVar(&h.timeout, "timeout", 5*time.Minute, "")
}

// upgrade implements helm upgrade, with --install.
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
		// The action is created before the flags are parsed, so it gets their
		// values here.
		client.Namespace, client.Version, client.Timeout, client.WaitStrategy = h.settings.Namespace(), h.version, h.timeout, h.strategy()
		client.SetRegistryClient(h.config.RegistryClient)
		// A release without history is installed. Other errors of the history
		// are left to the upgrade, which runs into them as well.
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

// install implements the first run of helm upgrade --install. It prints the
// status and the notes of the chart.
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

// read locates the chart, in a folder, an archive or a registry, and merges the
// values of all flags in the order of precedence that Helm defines.
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

// history implements helm history, with one revision per line.
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

// list implements helm list for the current namespace.
func (h *program) list() *cobra.Command {
	return &cobra.Command{Use: "list", Args: cobra.NoArgs, RunE: func(command *cobra.Command, _ []string) error {
		client := action.NewList(h.config)
		// Without a filter, the mask selects releases in every state.
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

// get implements helm get values. With --output yaml it prints the values
// alone, to be used as a values file.
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
		if output != "yaml" { // the table form has a heading
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

// rollback implements helm rollback. Unlike helm it requires a revision.
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
