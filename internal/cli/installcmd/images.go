package installcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/install/images"
	"slipway.dev/slipway/internal/install/values"
)

// Images returns the command slipway images (R78).
func Images() *cobra.Command {
	command := &cobra.Command{
		Use:   "images",
		Short: "List the images of the chart, and copy them to a private registry",
		Long: `For clusters that take images from a private registry, or that have no way to others.
The images are those of the rendered chart; nothing needs a container engine.

  slipway images list
  slipway images mirror --to registry.example.com/mirror
  slipway images values --registry registry.example.com/mirror > images.yaml
  helm upgrade --install … --values images.yaml`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(imagesListCommand(), imagesValuesCommand(), imagesMirrorCommand())
	return command
}

// imagesFlags select the chart and the values that decide which images it uses.
type imagesFlags struct {
	chart  string
	values []string
}

// add adds the flags.
func (f *imagesFlags) add(command *cobra.Command) {
	command.Flags().StringVar(&f.chart, "chart", "", "folder or archive of a chart (default the runtime's of this version)")
	command.Flags().StringArrayVarP(&f.values, "values", "f", nil, "values file of the installation; may be repeated")
}

// open reads the chart and merges the values. The chart in this program gets
// the values that it cannot be rendered without.
func (f *imagesFlags) open() (*chart.Chart, map[string]any, error) {
	given := map[string]any{}
	for _, place := range f.values {
		text, err := readValuesFile(place)
		if err != nil {
			return nil, nil, exit.UsageError{Err: err}
		}
		given = images.Merged(given, text)
	}
	if f.chart != "" {
		loaded, err := chart.Load(f.chart)
		if err != nil {
			return nil, nil, exit.UsageError{Err: err}
		}
		return loaded, given, nil
	}
	archive, err := charts.Archive(charts.Runtime)
	if err != nil {
		return nil, nil, err
	}
	loaded, err := chart.Read(archive)
	return loaded, images.Bare(given), err
}

// readValuesFile reads a values file of bounded size.
func readValuesFile(place string) (map[string]any, error) {
	file, err := os.Open(place)
	if err != nil {
		return nil, fmt.Errorf("read the values: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, values.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the values: %w", err)
	}
	if len(text) > values.MaxBytes {
		return nil, fmt.Errorf("the values file %s has more than %d bytes", place, values.MaxBytes)
	}
	read := map[string]any{}
	if err := yaml.Unmarshal(text, &read); err != nil {
		// The decoder's message may quote a secret of the file.
		return nil, fmt.Errorf("the values file %s is no YAML: slipway helm validate --offline says where", place)
	}
	return read, nil
}

// list renders the chart and returns its images. Rendering finds images of
// disabled and enabled parts alike, as an installation would use them.
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

// imagesListCommand lists the images with the objects that use them.
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
		if err := output.Check(); err != nil {
			return err
		}
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
			rows, flush := printer.NewTable(command.OutOrStdout())
			rows.Row("IMAGE", "USED BY")
			for _, image := range found {
				rows.Row(image.Reference, strings.Join(image.UsedBy, ", "))
			}
			return flush()
		}
		return output.Encode(command.OutOrStdout(), map[string]any{"images": found})
	}
	return command
}

// registryFlags select how registries are reached.
type registryFlags struct {
	access images.Access
	plain  string
}

// add adds the flags. A bare --plain-http allows loopback only: everything else
// needs the word always.
func (f *registryFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.access.AuthFile, "auth-file", "", "credentials in the format of Docker's config.json (default Docker's own file)")
	flags.StringVar(&f.access.CAFile, "ca-file", "", "authorities of the registries in PEM, beside those of the system")
	flags.StringVar(&f.plain, "plain-http", "never", "talk without TLS: never, loopback (to registries of this machine), or always, which shows credentials on the way")
	flags.Lookup("plain-http").NoOptDefVal = "loopback"
}

// open returns the registries.
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
	f.access.Agent = "slipway/" + buildinfo.Read().Version
	opened, err := f.access.Open()
	if err != nil {
		return nil, exit.UsageError{Err: err}
	}
	return opened, nil
}

// imagesValuesCommand prints the values that pull the images from a private
// registry. The chart is rendered with them first, to see that no image is left
// that comes from elsewhere.
func imagesValuesCommand() *cobra.Command {
	given, access := &imagesFlags{}, &registryFlags{}
	spec, pin := images.RegistrySpec{}, false
	command := &cobra.Command{
		Use:   "values --registry REGISTRY[/PREFIX]",
		Short: "Print the values that pull the images from a private registry",
		Long: `Writes a values file for the chart. It is rendered with the values of the installation
first, to see that every image comes from the registry. With --digest the image is
pinned to what the registry has.`,
		Example: `  slipway images values --registry registry.example.com/mirror > images.yaml
  slipway images values --registry registry.example.com/mirror --pull-secret registry --digest -f values.yaml`,
		Args: cobra.NoArgs,
	}
	given.add(command)
	access.add(command)
	command.Flags().StringVar(&spec.Registry, "registry", "", "registry, with what comes before the repositories")
	command.Flags().StringArrayVar(&spec.PullSecrets, "pull-secret", nil, "Secret of the namespace to pull with; may be repeated")
	command.Flags().BoolVar(&pin, "digest", false, "ask the registry for the digest, and pin the image to it")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if spec.Registry == "" {
			return exit.UsageError{Err: errors.New("no registry is named: give one with --registry")}
		}
		loaded, file, err := given.open()
		if err != nil {
			return err
		}
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
		_, err = command.OutOrStdout().Write(text)
		return err
	}
	return command
}

// registryDigest returns the digest of the one image in the private registry.
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

// imagesMirrorCommand copies the images to a private registry, with all
// platforms.
func imagesMirrorCommand() *cobra.Command {
	given, access := &imagesFlags{}, &registryFlags{}
	mirror := images.Mirror{}
	command := &cobra.Command{
		Use:   "mirror --to REGISTRY[/PREFIX]",
		Short: "Copy the images to a private registry",
		Long: `Copies every image of the chart with all its platforms to a registry, and compares the
digests. What the registry has is not copied again: a copy that was interrupted goes
on. With --from the images come from an OCI archive, as make image writes it, for a
registry that no other can be reached from.

Credentials are read from a file in Docker's format; programs that it names are not
run.`,
		Example: `  slipway images mirror --to registry.example.com/mirror
  slipway images mirror --to registry.example.com/mirror --from slipway.tar --auth-file auth.json --ca-file ca.pem`,
		Args: cobra.NoArgs,
	}
	given.add(command)
	access.add(command)
	command.Flags().StringVar(&mirror.To, "to", "", "registry, with what comes before the repositories")
	command.Flags().StringVar(&mirror.From, "from", "", "OCI archive with the images (default the registries that the images name)")
	command.Flags().BoolVar(&mirror.DryRun, "dry-run", false, "look for the images, and copy nothing")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := output.Check(); err != nil {
			return err
		}
		if mirror.To == "" {
			return exit.UsageError{Err: errors.New("no registry is named: give one with --to")}
		}
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

// copyImages copies the images and prints each when it is there.
func copyImages(command *cobra.Command, mirror images.Mirror, found []images.Image, output *printer.Output) error {
	copied := []images.Copied{}
	err := mirror.Copy(command.Context(), found, func(one images.Copied) {
		copied = append(copied, one)
		what := fmt.Sprintf("copied, %d blobs with %d bytes", one.Blobs, one.Bytes)
		switch {
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
	if err == nil && output.Form == printer.FormTable && !mirror.DryRun {
		printer.Note(command, "Now have the chart use them: slipway images values --registry %s", mirror.To)
	}
	return err
}
