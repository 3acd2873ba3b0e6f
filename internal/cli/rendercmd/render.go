// Package rendercmd is the command slipway render, which renders a folder of
// this machine as the agent renders a repository, and the hidden render-worker,
// the process that a renderer starts.
package rendercmd

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/localrepo"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/edge/overload"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/gitops/tree"
)

// manifestBytes bounds a file with an Application. etcd does not store objects
// much larger than this.
const manifestBytes = 1 << 20

// Worker returns the hidden command that a renderer starts as its worker
// process: this program again, which renders the requests on standard input.
// The process boundary keeps a chart that crashes or never ends away from the
// renderer.
func Worker() *cobra.Command {
	return &cobra.Command{
		Use:    "render-worker",
		Short:  "Render the job on standard input",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			// Of what the start of so many packages has used, a render needs little.
			overload.DropTextPages()
			return render.ServeWorker(os.Stdin, os.Stdout)
		},
	}
}

// localRender is one render of a folder on this machine, with its flags.
type localRender struct {
	// ignored are the fields of the Application that have no effect.
	ignored         []string
	name, namespace string
	// path is relative to the folder of the argument.
	path string
	// kubeVersion and apiVersions are the capabilities that charts see; no
	// cluster is contacted for them.
	kubeVersion string
	apiVersions []string
	// application is the file of -f, empty without one.
	application string
	source      sourceFlags
}

// Command returns the command slipway render. It contacts no cluster, so its
// output depends on the folder and the flags alone.
func Command() *cobra.Command {
	local := &localRender{}
	// There is no table form: the manifests are the result.
	var output *printer.Output
	command := &cobra.Command{
		Use:   "render DIR",
		Short: "Show what would be applied from a folder",
		Long: `Renders a local directory as the agent renders a repository: a Helm chart, a
kustomization, or a directory of YAML, JSON and Jsonnet files, in the same worker and
with the same refusals. No cluster is contacted. Charts and
repositories that the directory depends on are fetched, without credentials.

DIR is the root of the repository, and --path the directory in it; nothing outside
of DIR is read. With -f the options come from an Application, and so does the
path.`,
		Example: `  slipway render . --path apps/web
  slipway render chart --name shop --namespace shop --helm-set image.tag=v2
  slipway render . -f apps/shop.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("write it as slipway render DIR, with the root of the repository")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			objects, warnings, err := local.run(command.Context(), args[0])
			// Warnings go to standard error, also on an error: they often
			// explain it.
			for _, warning := range warnings {
				_, _ = fmt.Fprintln(command.ErrOrStderr(), "warning:", printer.Printable(warning))
			}
			if err != nil {
				return err
			}
			return printObjects(command.OutOrStdout(), objects, output.Form)
		},
	}
	flags := command.Flags()
	flags.StringVarP(&local.application, "filename", "f", "", "file with an Application whose sources are taken from DIR")
	flags.StringVar(&local.name, "name", "", "name of the application and of a chart's release (default that of the directory, or of the Application)")
	flags.StringVar(&local.namespace, "namespace", "", "destination namespace of the objects (default that of the Application, or default)")
	flags.StringVar(&local.path, "path", "", "directory in DIR to render")
	flags.StringVar(&local.kubeVersion, "kube-version", "", "Kubernetes version for charts, such as v1.36.0")
	flags.StringSliceVar(&local.apiVersions, "api-versions", nil, "API versions for charts, such as monitoring.coreos.com/v1")
	output = printer.NewOutputOf(command, printer.FormYAML, printer.FormJSON, printer.FormName)
	local.source.add(command)
	return command
}

// run renders in one worker process, with the limits of the agent. The second
// result has the warnings; it is set on errors too.
func (l *localRender) run(ctx context.Context, dir string) ([]*unstructured.Unstructured, []string, error) {
	store, err := tree.NewFolder(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read the folder %s: %w", dir, err)
	}
	request, err := l.request(dir, store)
	if err != nil {
		return nil, nil, err
	}
	renderer, err := render.New(render.Options{Workers: 1})
	if err != nil {
		return nil, nil, err
	}
	fetched := &dependencies{indexes: renderer}
	request.Resolve = fetched.resolve
	result, err := renderer.Render(ctx, request)
	// The worker is stopped before the result is used, so that no process is
	// left behind on any path.
	if err = errors.Join(err, fetched.close(), renderer.Close()); err != nil {
		return nil, l.ignored, err
	}
	return result.Objects, append(l.ignored, result.Warnings...), nil
}

// request builds the render request from the flags, or from the Application of
// -f. Errors in flags are usage errors.
func (l *localRender) request(dir string, store tree.Store) (render.Request, error) {
	if l.application != "" {
		return l.applicationRequest(store)
	}
	source, err := l.source.source()
	if err != nil {
		return render.Request{}, exit.UsageError{Err: err}
	}
	folder, err := localrepo.CleanPath(l.path)
	if err != nil {
		return render.Request{}, exit.UsageError{Err: err}
	}
	// Path of the source is what the user wrote, for messages; that of the
	// input is the cleaned form of the store.
	source.Path = cmp.Or(l.path, ".")
	name := l.name
	// The default is the name of the folder in lower case, because names of
	// Helm releases must be.
	if name == "" {
		absolute, err := filepath.Abs(filepath.Join(dir, l.path))
		if err != nil {
			return render.Request{}, err
		}
		name = strings.ToLower(filepath.Base(absolute))
	}
	request := l.bare(name, "")
	request.Inputs = []render.Input{{Source: source, Store: store, Path: folder}}
	return request, nil
}

// bare returns a request without sources. Flags win over the Application, and
// the namespace defaults to default. It is the part that both kinds of requests
// share.
func (l *localRender) bare(name, namespace string) render.Request {
	if l.name != "" {
		name = l.name
	}
	if l.namespace != "" {
		namespace = l.namespace
	}
	namespace = cmp.Or(namespace, "default")
	return render.Request{
		App: name, Project: v1alpha1.DefaultProject, Namespace: namespace, KubeVersion: l.kubeVersion, APIVersions: l.apiVersions,
	}
}

// applicationRequest builds the request from an Application; only the files
// come from the folder, regardless of the repository that its sources name.
// Flags for the source are refused, because they would conflict with the
// Application.
func (l *localRender) applicationRequest(store tree.Store) (render.Request, error) {
	if l.path != "" || l.source.given() {
		return render.Request{}, exit.UsageError{Err: errors.New("-f takes path and options from the Application: leave out --path, --helm-…, --kustomize-…, --directory-… and --jsonnet-…")}
	}
	app, err := readApplicationFile(l.application)
	if err != nil {
		return render.Request{}, err
	}
	// Ignored fields are warnings: the agent accepts them too.
	for _, warning := range app.Warnings {
		l.ignored = append(l.ignored, warning.String())
	}
	request := l.bare(app.Name, app.Spec.Destination.Namespace)
	request.Project = app.Spec.ProjectName()
	inputs, err := localrepo.Inputs(app.Spec.AllSources(), store)
	request.Inputs = inputs
	return request, err
}

// readApplicationFile reads the one Application of a file. It is strict:
// unknown and duplicate fields are errors, because users run this command to
// find typos.
func readApplicationFile(name string) (*v1alpha1.Application, error) {
	text, err := files.ReadBounded(name, manifestBytes)
	if err != nil {
		return nil, err
	}
	content, err := onlyDocument(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: it must have one Application", name, err)
	}
	app, refused, err := v1alpha1.Decode(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("%s: %s", name, refusal.Summary(refused))
	}
	return app, nil
}

// onlyDocument returns the content of a YAML text with one document. The parser
// itself reads the first document and ignores the others. Empty ones are skipped.
func onlyDocument(text []byte) (content map[string]any, err error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return content, nil
		}
		var found map[string]any
		if err == nil {
			err = yaml.UnmarshalStrict(document, &found)
		}
		if err == nil && content != nil && found != nil {
			err = errors.New("it has several documents")
		}
		if err != nil {
			return nil, err
		}
		if found != nil {
			content = found
		}
	}
}

// printObjects prints objects as one YAML stream, one JSON List that kubectl
// accepts, or one name per line. The order is that of the renderer.
func printObjects(w io.Writer, objects []*unstructured.Unstructured, form string) error {
	// Objects are not masked: the result is for kubectl apply, and Secrets come
	// from the user's own files.
	if form == printer.FormJSON {
		items := []any{}
		for _, object := range objects {
			items = append(items, object.Object)
		}
		return printer.WriteJSON(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
	for _, object := range objects {
		if form == printer.FormName {
			if _, err := fmt.Fprintln(w, printer.Printable(tracking.KeyOf(object).String())); err != nil {
				return err
			}
			continue
		}
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
