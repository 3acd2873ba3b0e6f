package runtimecmd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/cli/report"
	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// releaseTimeout is how long an installation or upgrade may take until it is healthy.
const releaseTimeout = 10 * time.Minute

// releaseFlags are what install, upgrade and restore have in common.
type releaseFlags struct {
	local              kube.UserChoice
	release, namespace string
	chart, version     string
	plainHTTP          bool
	files              []string
	sets, textSets     []string
	timeout            time.Duration
	yes, dryRun        bool
	keepFailed         bool
	skipPreflight      bool
	outputValues       string
}

func (f *releaseFlags) add(command *cobra.Command) {
	flags := command.Flags()
	kubeflags.Add(command, &f.local)
	flags.StringVarP(&f.namespace, "namespace", "n", release.DefaultNamespace, "namespace of the runtime")
	flags.StringVar(&f.release, "release", release.DefaultName, "name of the Helm release")
	flags.StringVar(&f.chart, "chart", "", "folder, archive or oci:// address of the chart (default the one in this program)")
	flags.StringVar(&f.version, "version", "", "version of the chart (default the newest, or that of this program)")
	flags.StringVar(&f.version, "chart-version", "", "")
	_ = flags.MarkHidden("chart-version") // it is there
	flags.BoolVar(&f.plainHTTP, "plain-http", false, "fetch the chart from a registry without TLS")
	flags.StringArrayVarP(&f.files, "values", "f", nil, "values file; may be repeated, and later ones win")
	flags.StringArrayVar(&f.sets, "set", nil, "value as key=value, over those of the files; may be repeated")
	flags.StringArrayVar(&f.textSets, "set-string", nil, "value that is a text, as key=value; may be repeated")
	flags.DurationVar(&f.timeout, "timeout", releaseTimeout, "how long it may take until the runtime is healthy")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check and show the plan, and change nothing")
	flags.StringVar(&f.outputValues, "output-values", "", "write the values to a file; - is standard output")
	flags.BoolVar(&f.keepFailed, "keep-failed", false, "leave a release that is not healthy in time as it is, to look at it")
	flags.BoolVar(&f.skipPreflight, "skip-preflight", false, "leave out the checks of slipway preflight before and after")
}

// readFiles merges the values files.
func (f *releaseFlags) readFiles(command *cobra.Command) (map[string]any, error) {
	merged := map[string]any{}
	for _, path := range f.files {
		text, err := readValues(command, path)
		if err != nil {
			return nil, exit.UsageError{Err: err}
		}
		given := map[string]any{}
		if err := yaml.UnmarshalStrict(text, &given); err != nil {
			return nil, exit.UsageError{Err: fmt.Errorf("the values file %s is no YAML: slipway helm validate --values %s --offline says where", path, shellWord(path))}
		}
		merged = loader.MergeMaps(merged, given)
	}
	return merged, nil
}

func readValues(command *cobra.Command, path string) ([]byte, error) {
	from := command.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read the values: %w", err)
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, values.MaxBytes+1))
	if err == nil && len(text) > values.MaxBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, values.MaxBytes)
	}
	return text, err
}

// findChart gives the chart of the flags.
func (f *releaseFlags) findChart(ctx context.Context) (*release.Chart, error) {
	if f.chart == "" {
		archive, err := charts.Archive(charts.Runtime)
		if err != nil {
			return nil, err
		}
		own, err := release.ReadChart(archive)
		if err != nil || f.version == "" || own.Version() == f.version {
			return own, err
		}
	}
	return release.FindChart(ctx, release.Source{Place: cmp.Or(f.chart, release.DefaultChart), Version: f.version, PlainHTTP: f.plainHTTP})
}

// operation is an installation, an upgrade or a restore.
type operation struct {
	command *cobra.Command
	given   *releaseFlags
	// platform is nil when none is chosen.
	platform *apiclient.Client
	cluster  *kube.Cluster
	client   *release.Client
	chart    *release.Chart
	// values are all of them, and document reads them.
	values   map[string]any
	document values.Document
	secrets  []release.Secret
	// standIn answers for Secrets that are made later, by name and key.
	standIn map[string]map[string]secret.Text
	// known is set when the platform may know the runtime already.
	known bool
	// confirmed is called when somebody has agreed, before anything is changed.
	confirmed func(ctx context.Context) error
	// failed is called when it was not successful.
	failed func(ctx context.Context)
	// question is what is asked, and done what is told in the end.
	question, done string
	// force takes an older version too.
	force bool
}

// open connects to the cluster. Who gets no error calls close.
func (o *operation) open() error {
	cluster, err := kube.ConnectUser(o.given.local, kube.Version(buildinfo.Read().Version))
	if err != nil {
		return exit.UsageError{Err: err}
	}
	o.cluster = cluster
	place := release.Place{Release: o.given.release, Namespace: o.given.namespace}
	o.client, err = release.Open(cluster, place, func(line string) { printer.Note(o.command, "%s", line) })
	if err != nil {
		cluster.Close()
	}
	return err
}

func (o *operation) close() { o.cluster.Close() }

// settle puts values together: those before, the files, the flags, and --set.
func (o *operation) settle(before map[string]any, flags []handover.Value) error {
	given, err := o.given.readFiles(o.command)
	if err != nil {
		return err
	}
	// What was before stays as it is: sets write into the groups of a tree.
	merged := loader.MergeMaps(runtime.DeepCopyJSON(before), given)
	if err := handover.Merge(merged, flags...); err != nil {
		return exit.UsageError{Err: err}
	}
	if err := handover.MergeSets(merged, o.given.sets, o.given.textSets); err != nil {
		return exit.UsageError{Err: err}
	}
	text, err := yaml.Marshal(merged)
	if err != nil {
		return err
	}
	// As Helm keeps them: numbers are those of JSON.
	o.values = map[string]any{}
	if err := yaml.Unmarshal(text, &o.values); err != nil {
		return err
	}
	o.document = values.New(values.Runtime(), o.values)
	return nil
}

// name is that of the runtime.
func (o *operation) name() string { return o.document.Text(values.KeyRuntimeName) }

// joins reports whether the runtime is one of the chosen platform.
func (o *operation) joins() bool {
	return o.platform != nil && o.document.Flag(values.KeyPlatformEnabled)
}

// run does all of it: it checks, plans, asks, writes, waits and checks again.
func (o *operation) run() error {
	ctx := o.command.Context()
	if err := o.validate(ctx); err != nil {
		return err
	}
	if err := o.check(ctx, preflight.Before); err != nil {
		return err
	}
	plan, err := o.client.Plan(ctx, release.Wish{Chart: o.chart, Values: o.values, Secrets: o.secrets})
	if err != nil {
		return err
	}
	if err := o.refuseOlder(plan); err != nil {
		return err
	}
	if err := showPlan(o.command.OutOrStdout(), plan); err != nil {
		return err
	}
	if err := o.writeValues(); err != nil {
		return err
	}
	switch {
	case o.given.dryRun:
		printer.Note(o.command, "Nothing was changed.")
		return nil
	case plan.Empty():
		printer.Note(o.command, "There is nothing to change.")
		return nil
	}
	if err := prompt.New(o.command).Confirm(o.question, o.given.yes); err != nil {
		return err
	}
	if o.confirmed != nil {
		if err := o.confirmed(ctx); err != nil {
			return err
		}
	}
	if err := o.apply(ctx, plan); err != nil {
		return err
	}
	printer.Note(o.command, "%s", o.done)
	if notes := plan.Notes(); notes != "" {
		_, _ = io.WriteString(o.command.OutOrStdout(), printer.PrintableLines(notes)+"\n")
	}
	return o.check(ctx, preflight.After)
}

func (o *operation) apply(ctx context.Context, plan *release.Plan) error {
	patience := release.Patience{Timeout: o.given.timeout, Keep: o.given.keepFailed}
	if o.joins() {
		patience.Healthy = func(ctx context.Context) error { return o.online(ctx, plan) }
	} else if o.document.Flag(values.KeyPlatformEnabled) {
		printer.Note(o.command, "No platform is chosen here, so nobody asks whether the runtime is online: slipway login is for that.")
	}
	err := o.client.Apply(ctx, plan, patience)
	if err != nil && o.failed != nil {
		o.failed(context.WithoutCancel(ctx))
	}
	return err
}

// online asks the platform whether the runtime, in this version, gives signs of life.
func (o *operation) online(ctx context.Context, plan *release.Plan) error {
	answer, err := apiclient.Call(ctx, o.platform, o.platform.Runtimes().GetRuntime, &platformv1.GetRuntimeRequest{Name: o.name()})
	if err != nil {
		return fmt.Errorf("the runtime %s is not registered at %s yet (%w)", o.name(), o.platform.BaseURL(), err)
	}
	found := answer.GetRuntime()
	switch told := found.GetChartVersion(); {
	case !found.GetOnline():
		return fmt.Errorf("the runtime %s is registered and not online yet", o.name())
	case told != "" && told != plan.Version:
		return fmt.Errorf("the runtime %s still reports the version %s", o.name(), printer.Printable(told))
	}
	return nil
}

// refuseOlder keeps an upgrade from going back by accident.
func (o *operation) refuseOlder(plan *release.Plan) error {
	if plan.Install() || plan.From == "" || o.force {
		return nil
	}
	older, err := release.Older(plan.Version, plan.From)
	if err != nil {
		return err
	}
	if older {
		return exit.UsageError{Err: fmt.Errorf("the chart %s is older than %s, which is installed: say --force if it is meant, or go back with helm rollback %s --namespace %s",
			plan.Version, plan.From, plan.Release, plan.Namespace)}
	}
	return nil
}

// writeValues writes the values to where the flag says.
func (o *operation) writeValues() error {
	if o.given.outputValues == "" {
		return nil
	}
	text, err := yaml.Marshal(o.values)
	if err != nil {
		return err
	}
	if o.given.outputValues == "-" {
		_, err := o.command.OutOrStdout().Write(text)
		return err
	}
	// They may have secrets in them.
	return files.WritePrivate(o.given.outputValues, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// standInWorld answers for Secrets that are made later.
type standInWorld struct {
	validate.World
	secrets map[string]map[string]secret.Text
	// free is set when the name may be taken by what is replaced.
	free bool
}

// Secret implements validate.World.
func (w standInWorld) Secret(ctx context.Context, namespace, name, key string) (secret.Text, error) {
	if text, ok := w.secrets[name][key]; ok {
		return text, nil
	}
	return w.World.Secret(ctx, namespace, name, key)
}

// NameFree implements validate.World.
func (w standInWorld) NameFree(ctx context.Context, link validate.Link, name string) (validate.NameAnswer, error) {
	if w.free {
		return validate.NameAnswer{Free: true}, nil
	}
	return w.World.NameFree(ctx, link, name)
}

// validate refuses values that are wrong, as slipway helm validate does.
func (o *operation) validate(ctx context.Context) error {
	text, err := yaml.Marshal(o.values)
	if err != nil {
		return err
	}
	checked := validate.Run(ctx, validate.Options{
		Values: bytes.NewReader(text), Namespace: o.given.namespace, Version: o.chart.Version(),
		World: standInWorld{World: &validate.Live{Cluster: o.cluster}, secrets: o.standIn, free: o.known},
	})
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if len(checked.Findings) > 0 || len(checked.Skipped) > 0 {
		if err := report.Values(o.command.ErrOrStderr(), "text", checked); err != nil {
			return err
		}
	}
	if checked.OK() {
		return nil
	}
	return exit.Status{Code: exit.Failure, Err: fmt.Errorf("%d error(s) in the values: nothing was changed", checked.Count(validate.Error))}
}

// check runs the checks of slipway preflight, and prints those that found something.
func (o *operation) check(ctx context.Context, stage preflight.Stage) error {
	if o.given.skipPreflight {
		return nil
	}
	results := preflight.Run(ctx, o.preflightWorld(), o.preflightOptions(stage))
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, result := range results {
		if result.State == preflight.Warned || result.State == preflight.Failed {
			report.Check(o.command.ErrOrStderr(), result)
		}
	}
	wrong := preflight.Errors(results)
	switch {
	case wrong == 0:
		printer.Note(o.command, "%s", fmt.Sprintf("Checked %s: %d checks, none failed.", stage, len(results)))
		return nil
	case stage == preflight.Before:
		return exit.Status{Code: exit.Failure, Err: fmt.Errorf("%d of %d checks failed: nothing was changed; --skip-preflight goes on all the same", wrong, len(results))}
	}
	return exit.Status{Code: exit.Failure, Err: fmt.Errorf("the runtime runs, and %d of %d checks failed: see slipway preflight --stage after", wrong, len(results))}
}

func (o *operation) preflightWorld() preflight.World {
	world := preflight.World{Cluster: o.cluster}
	if o.joins() {
		world.Platform = o.platform.ForPreflight()
	}
	return world
}

func (o *operation) preflightOptions(stage preflight.Stage) preflight.Options {
	settings, _ := release.AccessSettings(o.document, o.given.namespace) // it was validated
	options := preflight.Options{
		Stage: stage, Settings: settings, Release: o.given.release, SingleNamespace: o.document.Flag(values.KeySingleNamespace),
		Gateway: o.document.Text(values.KeyMeshGateway), Token: preflight.TokenSource{
			Inline: o.document.Text(values.KeyToken) != "", SecretName: o.document.Text(values.KeyTokenRefName), SecretKey: o.document.Text(values.KeyTokenRefKey),
		},
	}
	if stage == preflight.Before && len(o.standIn) > 0 {
		options.Skip = append(options.Skip, preflight.TokenOrigin) // the Secret is made later
	}
	if o.known {
		options.Skip = append(options.Skip, preflight.RuntimeName) // it has its name already
	}
	return options
}

// sortedNames are the keys of a map in order.
func sortedNames[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
