package lifecycle

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/secret"
)

const (
	// DefaultTimeout is how long a release may take to become healthy.
	DefaultTimeout = 10 * time.Minute
	// pollInterval is how often the platform or the cluster is polled while an
	// operation waits for a state.
	pollInterval = time.Second
)

// Options are common to installing, upgrading and restoring.
type Options struct {
	// Connect connects to the cluster. It is called at most once, and the operation
	// closes what it returns.
	Connect            func() (*kube.Cluster, error)
	Release, Namespace string
	// NamespaceGiven is set if the user chose the namespace; otherwise that of the
	// registered runtime wins over the default.
	NamespaceGiven bool
	// Chart is a folder, an archive or an oci:// address; empty means the chart in this
	// program.
	Chart, Version string
	// PlainHTTP pulls the chart from a registry without TLS.
	PlainHTTP bool
	// Files are values files. Later ones win, and Sets and TextSets win over all.
	Files          []string
	Sets, TextSets []string
	// Timeout bounds the operation with all its waits. A rollback has a timeout
	// of its own after it.
	Timeout time.Duration
	// Yes is the agreement in advance. DryRun ends the operation after the plan
	// is shown and the values are saved.
	Yes, DryRun bool
	// KeepFailed leaves a release that is not healthy in time as it is.
	KeepFailed bool
	// SkipPreflight leaves out the preflight checks of both stages. The values
	// are validated all the same.
	SkipPreflight bool
	// SkipChecks are single checks to leave out, of both stages.
	SkipChecks []preflight.Code
	// Roots verify the host of the runtime; nil means the system's CAs.
	Roots *x509.CertPool
	// SaveValues gets the merged values before anything is changed, if it is set. They
	// may contain secrets.
	SaveValues func(text []byte) error
}

// readFiles merges the values files. YAML errors are not quoted: they may repeat a
// secret of the file.
func (o *Options) readFiles(ui UI) (map[string]any, error) {
	merged := map[string]any{}
	for _, path := range o.Files {
		text, err := readValues(ui, path)
		if err != nil {
			return nil, InvalidError{err}
		}
		given := map[string]any{}
		if err := yaml.UnmarshalStrict(text, &given); err != nil {
			return nil, InvalidError{fmt.Errorf("the values file %s is no YAML: slipway helm validate --values %s --offline shows where", path, handover.ShellWord(path))}
		}
		merged = loader.MergeMaps(merged, given)
	}
	return merged, nil
}

// readValues reads one values file of bounded size; - is the input.
func readValues(ui UI, path string) ([]byte, error) {
	from := ui.Input()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read the values: %w", err)
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	// One byte more than the limit is read, so that a larger file is refused
	// and not truncated.
	text, err := io.ReadAll(io.LimitReader(from, values.MaxBytes+1))
	if err == nil && len(text) > values.MaxBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, values.MaxBytes)
	}
	return text, err
}

// findChart returns the chart of the options. The chart in this program is used
// unless another version of it is requested, which is fetched from the
// registry.
func (o *Options) findChart(ctx context.Context) (*release.Chart, error) {
	if o.Chart == "" {
		archive, err := charts.Archive(charts.Runtime)
		if err != nil {
			return nil, err
		}
		own, err := release.ReadChart(archive)
		if err != nil || o.Version == "" || own.Version() == o.Version {
			return own, err
		}
	}
	// A chart of the user's own, or another version than the one in this
	// program.
	return release.FindChart(ctx, release.Source{Place: cmp.Or(o.Chart, release.DefaultChart), Version: o.Version, PlainHTTP: o.PlainHTTP})
}

// operation is one installation, upgrade or restore. Its fields are filled in the
// order of its steps; it is used by one goroutine.
type operation struct {
	ui      UI
	options *Options
	// platform is nil if none is chosen.
	platform Platform
	cluster  *kube.Cluster
	client   *release.Client
	chart    *release.Chart
	// values are the merged values, and document reads them by key.
	values   map[string]any
	document values.Document
	// secrets are created with the release. Until then pendingSecrets stands in for
	// them in validation, by name and key.
	secrets        []release.Secret
	pendingSecrets map[string]map[string]secret.Text
	// registered is set if the platform may have the runtime already, so that its name
	// is not free and need not be.
	registered bool
	// confirmed runs after the user has agreed and before anything is changed.
	confirmed func(ctx context.Context) error
	// failed runs if the operation did not succeed, with a context that outlives an
	// interrupt.
	failed func(ctx context.Context)
	// question is for the confirmation before the change, done is shown after
	// it.
	question, done string
	// allowOlder permits a chart older than the installed one.
	allowOlder bool
	// reapply writes every object again, also if nothing changes.
	reapply bool
}

// open connects to the cluster. A caller that gets no error calls close.
func (o *operation) open() error {
	cluster, err := o.options.Connect()
	if err != nil {
		return InvalidError{err}
	}
	o.cluster = cluster
	o.client, err = release.Open(cluster, o.place(), func(line string) { o.ui.Note("%s", line) })
	if err != nil {
		cluster.Close()
	}
	return err
}

// place is that of the release.
func (o *operation) place() release.Place {
	return release.Place{Release: o.options.Release, Namespace: o.options.Namespace}
}

// close closes the connection that open has made.
func (o *operation) close() { o.cluster.Close() }

// mergeValues merges the values of before, the files, the flags and --set, in
// this order; later ones win. It may run more than once: each call starts from
// before again and replaces the result of the last.
func (o *operation) mergeValues(before map[string]any, flags []handover.Value) error {
	given, err := o.options.readFiles(o.ui)
	if err != nil {
		return err
	}
	// A copy: sets write into the groups of the tree, and before may be a release's.
	merged := loader.MergeMaps(runtime.DeepCopyJSON(before), given)
	if err := handover.Merge(merged, flags...); err != nil {
		return InvalidError{err}
	}
	if err := handover.MergeSets(merged, o.options.Sets, o.options.TextSets); err != nil {
		return InvalidError{err}
	}
	text, err := yaml.Marshal(merged)
	if err != nil {
		return err
	}
	// Helm stores values as JSON, whose numbers are float64. Values of the same type
	// compare equal to those of the release before.
	o.values = map[string]any{}
	if err := yaml.Unmarshal(text, &o.values); err != nil {
		return err
	}
	o.document = values.New(values.Runtime(), o.values)
	return nil
}

// name is the name of the runtime in the values.
func (o *operation) name() string { return o.document.Text(values.KeyRuntimeName) }

// joins reports whether the runtime joins the chosen platform.
func (o *operation) joins() bool {
	return o.platform != nil && o.document.Flag(values.KeyPlatformEnabled)
}

// run performs the operation: validate, check, plan, show, confirm, apply,
// check again. Everything before the confirmation only reads.
func (o *operation) run(ctx context.Context) error {
	if err := o.validate(ctx); err != nil {
		return err
	}
	if err := o.check(ctx, preflight.Before); err != nil {
		return err
	}
	plan, err := o.client.Plan(ctx, release.Spec{Chart: o.chart, Values: o.values, Secrets: o.secrets, TakeOver: o.reapply})
	if err != nil {
		return err
	}
	if err := o.refuseOlder(plan); err != nil {
		return err
	}
	if err := o.ui.ShowPlan(plan); err != nil {
		return err
	}
	// The values are saved before the confirmation and also in a dry run, so
	// that they can be reviewed together with the plan.
	if err := o.saveValues(); err != nil {
		return err
	}
	switch {
	case o.options.DryRun:
		o.ui.Note("Nothing was changed.")
		return nil
	case plan.Empty() && !o.reapply:
		o.ui.Note("There is nothing to change.")
		return nil
	}
	if err := o.ui.Confirm(o.question, o.options.Yes); err != nil {
		return err
	}
	// An API key is created here and not earlier: without the confirmation
	// nothing changes, neither in the cluster nor at the platform.
	if o.confirmed != nil {
		if err := o.confirmed(ctx); err != nil {
			return err
		}
	}
	if err := o.apply(ctx, plan); err != nil {
		return err
	}
	o.ui.Note("%s", o.done)
	if notes := plan.Notes(); notes != "" {
		_, _ = io.WriteString(o.ui.Output(), notes+"\n")
	}
	// The release is healthy by now, so a check that fails is reported and
	// nothing is rolled back.
	return o.check(ctx, preflight.After)
}

// apply applies the plan and waits until the release is healthy: its Pods, and the
// runtime at the platform if it joins one.
func (o *operation) apply(ctx context.Context, plan *release.Plan) error {
	wait := release.WaitOptions{Timeout: o.options.Timeout, Keep: o.options.KeepFailed}
	if o.joins() {
		wait.Healthy = func(ctx context.Context) error { return o.online(ctx, plan) }
	} else if o.document.Flag(values.KeyPlatformEnabled) {
		o.ui.Note("No platform is chosen here, so it is not checked whether the runtime is online: slipway login URL chooses one.")
	}
	err := o.client.Apply(ctx, plan, wait)
	// The cleanup runs after an interrupt as well: a key or a registration that
	// is left behind would stay valid.
	if err != nil && o.failed != nil {
		o.failed(context.WithoutCancel(ctx))
	}
	return err
}

// online returns nil if the platform has the runtime online in the planned version.
// A runtime of before the upgrade is online too until its Pod is replaced, so the
// version is compared.
func (o *operation) online(ctx context.Context, plan *release.Plan) error {
	// An error is not final: Apply polls until its timeout and then reports the
	// last one.
	found, err := o.platform.Runtime(ctx, o.name())
	if err != nil {
		return fmt.Errorf("the runtime %s is not registered at %s yet (%w)", o.name(), o.platform.BaseURL(), err)
	}
	// A registration without a version is accepted, because there is nothing to
	// compare.
	switch version := found.GetChartVersion(); {
	case !found.GetOnline():
		return fmt.Errorf("the runtime %s is registered and not online yet", o.name())
	case version != "" && version != plan.Version:
		return fmt.Errorf("the runtime %s still reports the version %s", o.name(), version)
	}
	return nil
}

// refuseOlder keeps an upgrade from going back by accident.
func (o *operation) refuseOlder(plan *release.Plan) error {
	if plan.Install() || plan.From == "" || o.allowOlder {
		return nil
	}
	older, err := release.Older(plan.Version, plan.From)
	if err != nil {
		return err
	}
	if older {
		return InvalidError{fmt.Errorf("the chart %s is older than %s, which is installed: add --force if that is intended, or go back with helm rollback %s --namespace %s",
			plan.Version, plan.From, plan.Release, plan.Namespace)}
	}
	return nil
}

// saveValues passes the merged values to SaveValues as YAML, if the caller has
// set it. They may contain secrets, so the caller decides where they go.
func (o *operation) saveValues() error {
	if o.options.SaveValues == nil {
		return nil
	}
	text, err := yaml.Marshal(o.values)
	if err != nil {
		return err
	}
	return o.options.SaveValues(text)
}

// pendingWorld is the world of the validation, with the Secrets that the operation
// will create.
type pendingWorld struct {
	validate.World
	secrets map[string]map[string]secret.Text
	// nameFree is set if the name may be taken by the runtime that is replaced.
	nameFree bool
}

// Secret implements validate.World. A pending Secret wins over one in the
// cluster: it is the one that the release will read.
func (w pendingWorld) Secret(ctx context.Context, namespace, name, key string) (secret.Text, error) {
	if text, ok := w.secrets[name][key]; ok {
		return text, nil
	}
	return w.World.Secret(ctx, namespace, name, key)
}

// NameFree implements validate.World. An upgrade or a restore keeps the name
// that its own registration has, so no request is sent.
func (w pendingWorld) NameFree(ctx context.Context, link validate.Link, name string) (validate.NameAvailability, error) {
	if w.nameFree {
		return validate.NameAvailability{Free: true}, nil
	}
	return w.World.NameFree(ctx, link, name)
}

// validate refuses wrong values, with the checks of slipway helm validate.
func (o *operation) validate(ctx context.Context) error {
	text, err := yaml.Marshal(o.values)
	if err != nil {
		return err
	}
	report := validate.Run(ctx, validate.Options{
		Values: bytes.NewReader(text), Namespace: o.options.Namespace, Version: o.chart.Version(),
		World: pendingWorld{World: &validate.Live{Cluster: o.cluster}, secrets: o.pendingSecrets, nameFree: o.registered},
	})
	// After an interrupt the findings describe the interrupt and not the
	// values.
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if len(report.Findings) > 0 || len(report.Skipped) > 0 {
		if err := o.ui.ShowReport(report); err != nil {
			return err
		}
	}
	if report.OK() {
		return nil
	}
	return errors.New(finding.Count(report.Errors(), "error", "errors") + " in the values: nothing was changed")
}

// check runs the preflight checks of a stage, and shows those that found something.
func (o *operation) check(ctx context.Context, stage preflight.Stage) error {
	if o.options.SkipPreflight {
		return nil
	}
	world := preflight.World{Cluster: o.cluster, Roots: o.options.Roots}
	// A runtime that joins no platform skips the checks of one.
	if o.joins() {
		world.Platform = o.platform.ForPreflight()
	}
	options := o.preflightOptions(stage)
	objects, err := o.chart.Objects(ctx, o.place(), o.values)
	if err != nil {
		return err
	}
	options.Objects = objects
	results := preflight.Run(ctx, world, options)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, result := range results {
		if result.State == preflight.Warned || result.State == preflight.Failed {
			o.ui.ShowCheck(result)
		}
	}
	wrong := preflight.Errors(results)
	switch {
	case wrong == 0:
		o.ui.Note("Checked %s: %s, none failed.", stage, finding.Count(len(results), "check", "checks"))
		return nil
	case stage == preflight.Before:
		return fmt.Errorf("%d of %d checks failed: nothing was changed; --skip-preflight goes on all the same", wrong, len(results))
	}
	return fmt.Errorf("the runtime runs, and %d of %d checks failed: %s looks again", wrong, len(results), AfterCommand(o.place()))
}

// preflightOptions returns the options of the preflight checks. It skips checks
// of a state that this operation itself brings about later.
func (o *operation) preflightOptions(stage preflight.Stage) preflight.Options {
	options := CheckOptions(o.document, o.place(), stage)
	options.Skip = append(options.Skip, o.options.SkipChecks...)
	if stage == preflight.Before && len(o.pendingSecrets) > 0 {
		options.Skip = append(options.Skip, preflight.TokenOrigin) // the Secret is created later
	}
	if o.registered {
		options.Skip = append(options.Skip, preflight.RuntimeName) // the name is this runtime's
	}
	return options
}

// poll calls try every pollInterval until it succeeds or returns a final error,
// which a retry would not change. After the timeout it returns the last error
// of try. The end of ctx wins over both.
func poll(ctx context.Context, timeout time.Duration, try func(context.Context) (final bool, err error)) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last := errors.New("no attempt was made")
	for {
		final, err := try(waiting)
		if err == nil || final {
			return err
		}
		if waiting.Err() == nil {
			last = err // not the error of the timeout itself
		}
		if backoff.Sleep(waiting, pollInterval) != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return last
		}
	}
}
