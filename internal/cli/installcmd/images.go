package installcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/images"
	"slipway.dev/slipway/internal/install/values"
)

// Images returns the command slipway images (R78), for clusters without access
// to public registries. The commands read the chart that is embedded in this
// program, unless --chart names another one.
func Images() *cobra.Command {
	command := &cobra.Command{
		Use:   "images",
		Short: "List the images of the chart, and copy them to a private registry",
		Long: `For clusters that pull images from a private registry, or that cannot reach others.
The images are those of the rendered chart; no container engine is needed.

  slipway images list
  slipway images mirror --to registry.example.com/mirror
  slipway images values --registry registry.example.com/mirror > images.yaml
  helm upgrade --install … --values images.yaml`,
	}
	command.AddCommand(imagesListCommand(), imagesValuesCommand(), imagesMirrorCommand())
	return command
}

// imagesFlags select the chart, and the values that decide which images it
// uses.
type imagesFlags struct {
	chart string
	// values are files, merged in the order of the flags: later ones win, as
	// with helm.
	values []string
}

// add adds the flags that all images commands share.
func (f *imagesFlags) add(command *cobra.Command) {
	command.Flags().StringVar(&f.chart, "chart", "", "directory or archive of a chart (default the runtime's chart of this version)")
	command.Flags().StringArrayVarP(&f.values, "values", "f", nil, "values file of the installation; may be repeated")
}

// open reads the chart and merges the values files. The embedded chart gets
// defaults for the values that it requires (images.Bare), so that images can be
// listed without a values file.
func (f *imagesFlags) open() (*chart.Chart, map[string]any, error) {
	given := map[string]any{}
	for _, place := range f.values {
		text, err := readValuesFile(place)
		if err != nil {
			return nil, nil, exit.UsageError{Err: err}
		}
		given = images.Merged(given, text)
	}
	// A chart of the user gets exactly the given values; it may have other
	// required ones.
	if f.chart != "" {
		loaded, err := chart.Load(f.chart)
		if err != nil {
			return nil, nil, exit.UsageError{Err: err}
		}
		return loaded, given, nil
	}
	// The embedded chart has the version of this program, so that the images
	// match it.
	archive, err := charts.Archive(charts.Runtime)
	if err != nil {
		return nil, nil, err
	}
	loaded, err := chart.Read(archive)
	return loaded, images.Bare(given), err
}

// readValuesFile reads a values file of at most values.MaxBytes. Errors name
// the file and never quote its content, which may have secrets.
func readValuesFile(place string) (map[string]any, error) {
	text, err := files.ReadBounded(place, values.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("read the values: %w", err)
	}
	read := map[string]any{}
	if err := yaml.Unmarshal(text, &read); err != nil {
		// The decoder's message may quote a secret of the file.
		return nil, fmt.Errorf("the values file %s is not YAML: slipway helm validate --values %s --offline shows the error", place, handover.ShellWord(place))
	}
	return read, nil
}

// list renders the chart and returns its images, those of hooks included.
// Rendering with the user's values yields the images that an installation with
// these values pulls; disabled parts contribute none. The release name and
// namespace are fixed: image references do not depend on them.
func (f *imagesFlags) list(ctx context.Context) ([]images.Image, error) {
	loaded, given, err := f.open()
	if err != nil {
		return nil, err
	}
	rendered, err := loaded.Render(ctx, given, images.Release())
	if err != nil {
		return nil, err
	}
	return images.List(rendered), nil
}

// imagesListCommand lists the images with the objects that use them. The form
// name prints bare references, for loops in scripts.
func imagesListCommand() *cobra.Command {
	given := &imagesFlags{}
	command := &cobra.Command{
		Use:   "list",
		Short: "List the images that the chart uses",
		Example: `  slipway images list
  slipway images list --values values.yaml -o json`,
		Args: cobra.NoArgs,
	}
	given.add(command)
	output := printer.NewOutput(command, printer.FormName, printer.FormJSON, printer.FormYAML)
	command.RunE = func(command *cobra.Command, _ []string) error {
		found, err := given.list(command.Context())
		if err != nil {
			return err
		}
		switch output.Form {
		case printer.FormName:
			for _, image := range found {
				_, _ = fmt.Fprintln(command.OutOrStdout(), printer.Printable(image.Reference))
			}
			return nil
		case printer.FormTable:
			return printer.List(command.OutOrStdout(), []string{"IMAGE", "USED BY"}, found, func(image images.Image) []string {
				return []string{image.Reference, strings.Join(image.UsedBy, ", ")}
			})
		}
		// List returns a non-nil slice, so that JSON has an empty list and not
		// null.
		return output.Encode(command.OutOrStdout(), map[string]any{"images": found})
	}
	return command
}

// registryFlags select how registries are accessed.
type registryFlags struct {
	access images.Access
	// plain is the text of --plain-http; open converts it.
	plain string
}

// add adds the flags. A bare --plain-http allows plain HTTP to loopback only;
// every other host needs the value always, because credentials would be
// readable on the network.
func (f *registryFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.access.AuthFile, "auth-file", "", "credentials in the format of Docker's config.json (default Docker's own file)")
	flags.StringVar(&f.access.CAFile, "ca-file", "", "PEM file with CA certificates of the registries, in addition to the system's")
	flags.StringVar(&f.plain, "plain-http", "never", "connect without TLS: never, loopback (registries on this machine), or always, which sends credentials unencrypted")
	flags.Lookup("plain-http").NoOptDefVal = "loopback"
}

// open validates the flags and returns the registry client. It reads the
// credentials and CA files; errors in them are usage errors. It contacts no
// registry.
func (f *registryFlags) open() (*images.Registries, error) {
	switch f.plain {
	case "never":
		f.access.Plain = images.PlainNever
	case "loopback":
		f.access.Plain = images.PlainLoopback
	case "always":
		f.access.Plain = images.PlainAlways
	default:
		return nil, exit.UsageError{Err: fmt.Errorf("--plain-http=%q is not known: choose never, loopback or always", f.plain)}
	}
	// Operators of registries see the version in their access logs.
	f.access.Agent = "slipway/" + buildinfo.Read().Version
	opened, err := f.access.Open()
	if err != nil {
		return nil, exit.UsageError{Err: err}
	}
	return opened, nil
}

// imagesValuesCommand prints the values that pull the images from a private
// registry. The chart is rendered with them first: an image that still comes
// from elsewhere is an error now and not a failed pull later. The file has only
// the values of the registry; users pass it to Helm after their own.
func imagesValuesCommand() *cobra.Command {
	given, access := &imagesFlags{}, &registryFlags{}
	spec, pin := images.RegistrySpec{}, false
	command := &cobra.Command{
		Use:   "values --registry REGISTRY[/PREFIX]",
		Short: "Print the values that pull the images from a private registry",
		Long: `Prints a values file for the chart. The chart is first rendered with the values of the
installation, to verify that every image comes from the registry. With --digest the
image is pinned to the digest in the registry.`,
		Example: `  slipway images values --registry registry.example.com/mirror > images.yaml
  slipway images values --registry registry.example.com/mirror --pull-secret registry --digest -f values.yaml`,
		Args: cobra.NoArgs,
	}
	given.add(command)
	access.add(command)
	command.Flags().StringVar(&spec.Registry, "registry", "", "registry, with the prefix of the repositories")
	command.Flags().StringArrayVar(&spec.PullSecrets, "pull-secret", nil, "image pull Secret of the namespace; may be repeated")
	command.Flags().BoolVar(&pin, "digest", false, "resolve the digest at the registry, and pin the image to it")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if spec.Registry == "" {
			return exit.UsageError{Err: errors.New("no registry is named: give one with --registry")}
		}
		// Only --digest contacts the registry; without it the command works
		// offline.
		loaded, file, err := given.open()
		if err != nil {
			return err
		}
		// The digest is resolved before rendering, because the rendered
		// references include it.
		if pin {
			if spec.Digest, err = registryDigest(command.Context(), given, access, spec.Registry); err != nil {
				return err
			}
		}
		made, err := images.Values(command.Context(), loaded, file, spec)
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(made)
		if err != nil {
			return err
		}
		// Only the values go to standard output: users redirect it to a file.
		_, err = command.OutOrStdout().Write(text)
		return err
	}
	return command
}

// registryDigest returns the digest of the image in the private registry. The
// chart has a single value for a digest, so it refuses a chart with several
// images. The image must have been mirrored before, because the digest is read
// from the private registry.
func registryDigest(ctx context.Context, given *imagesFlags, access *registryFlags, registry string) (string, error) {
	opened, err := access.open()
	if err != nil {
		return "", err
	}
	found, err := given.list(ctx)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("the chart uses %d images, and has one digest: leave --digest out", len(found))
	}
	target, err := images.Target(found[0].Reference, registry)
	if err != nil {
		return "", err
	}
	return opened.Digest(ctx, target)
}

// imagesMirrorCommand copies the images with all their platforms to a private
// registry. A repeated run copies only the missing blobs. It reads and writes
// registries directly and needs no container engine.
func imagesMirrorCommand() *cobra.Command {
	given, access := &imagesFlags{}, &registryFlags{}
	mirror := images.Mirror{}
	command := &cobra.Command{
		Use:   "mirror --to REGISTRY[/PREFIX]",
		Short: "Copy the images to a private registry",
		Long: `Copies every image of the chart with all its platforms to a registry, and compares the
digests. Content that the registry already has is not copied again, so an interrupted
copy resumes. With --from the images come from an OCI archive, as make image writes
it, for a registry from which no other is reachable.

Credentials are read from a file in Docker's format; credential helpers are not run.`,
		Example: `  slipway images mirror --to registry.example.com/mirror
  slipway images mirror --to registry.example.com/mirror --from slipway.tar --auth-file auth.json --ca-file ca.pem`,
		Args: cobra.NoArgs,
	}
	given.add(command)
	access.add(command)
	command.Flags().StringVar(&mirror.To, "to", "", "registry, with the prefix of the repositories")
	command.Flags().StringVar(&mirror.From, "from", "", "OCI archive with the images (default the registries that the images name)")
	command.Flags().BoolVar(&mirror.DryRun, "dry-run", false, "look up the images without copying them")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if mirror.To == "" {
			return exit.UsageError{Err: errors.New("no registry is named: give one with --to")}
		}
		// The registry flags are checked before the chart is rendered, which
		// takes longer.
		opened, err := access.open()
		if err != nil {
			return err
		}
		mirror.Registries = opened
		found, err := given.list(command.Context())
		if err != nil {
			return err
		}
		return copyImages(command, mirror, found, output)
	}
	return command
}

// copyImages copies the images and prints each one as soon as it is complete,
// because a copy can take minutes. JSON and YAML are written once, at the end
// and only on success.
func copyImages(command *cobra.Command, mirror images.Mirror, found []images.Image, output *printer.Output) error {
	// Copy stops at the first error. Images that were copied before stay; the
	// next run skips them.
	copied := []images.Copied{}
	err := mirror.Copy(command.Context(), found, func(one images.Copied) {
		copied = append(copied, one)
		what := fmt.Sprintf("copied, %s with %d bytes", finding.Count(int(one.Blobs), "blob", "blobs"), one.Bytes)
		switch {
		// Present wins over DryRun: an image that exists would not be copied.
		case one.Present:
			what = "was there already"
		case mirror.DryRun:
			what = "would be copied"
		}
		if output.Form == printer.FormTable {
			_, _ = fmt.Fprintf(command.OutOrStdout(), "%s -> %s (%s): %s\n", printer.Printable(one.From), printer.Printable(one.To), one.Digest, what)
		}
	})
	if err == nil && output.Form != printer.FormTable {
		err = output.Encode(command.OutOrStdout(), map[string]any{"images": copied})
	}
	// The note names the next step, which is easy to miss after a long copy.
	if err == nil && output.Form == printer.FormTable && !mirror.DryRun {
		printer.Note(command, "Now have the chart use them: slipway images values --registry %s", mirror.To)
	}
	return err
}
