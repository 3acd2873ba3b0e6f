package migratecmd

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/offline"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/controller"
	"slipway.dev/slipway/internal/ingress/convert"
)

// gatewayCommand returns the command slipway migrate gateway.
func gatewayCommand() *cobra.Command {
	given := &offline.Flags{}
	var options convert.Options
	command := &cobra.Command{
		Use:   "gateway",
		Short: "Write Gateways and HTTPRoutes for Ingresses",
		Long: `Reads the Ingresses of a cluster, or manifests with -f, as the edge does, and prints
Gateways and HTTPRoutes that serve the same hosts and paths. Nothing is written to a
cluster. The report, on the standard error, lists what Gateway API cannot express. An
Ingress with a part that restricts who is served, and that cannot be expressed, is kept:
nothing is printed for it, and it can be served beside the routes.

Then requests for each host and path, and for paths close to it, are evaluated by the
code of the edge before and after: which Service gets them, with which host, path and
headers, or where they are redirected to. The exit code is 1 when one differs.`,
		Example: `  slipway migrate gateway -f deploy/ > gateway.yaml
  slipway migrate gateway --gateway-namespace infra > gateway.yaml`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			judge, err := given.Load(command)
			if err != nil {
				return err
			}
			defer judge.Close()
			result, err := judge.Convert(command.Context(), options)
			if err != nil {
				return err
			}
			if err := writeObjects(command.OutOrStdout(), result.Result); err != nil {
				return err
			}
			if err := writeReport(command.ErrOrStderr(), result); err != nil {
				return err
			}
			if len(result.Differences) > 0 {
				return errors.New(finding.Count(len(result.Differences), "request is", "requests are") + " handled otherwise: see the report")
			}
			return nil
		},
	}
	given.Add(command)
	command.Flags().StringVar(&options.Class, "gateway-class", "slipway", "GatewayClass of the Gateways")
	command.Flags().StringVar(&options.Name, "gateway-name", "ingress", "name of the Gateways")
	command.Flags().StringVar(&options.Namespace, "gateway-namespace", "", "namespace of one Gateway for all; when empty, each namespace gets a Gateway for its hosts")
	return command
}

// writeObjects prints the objects as YAML documents that can be applied.
func writeObjects(w io.Writer, result *convert.Result) error {
	var objects []any
	for _, object := range result.Gateways {
		objects = append(objects, object)
	}
	for _, object := range result.Routes {
		objects = append(objects, object)
	}
	for _, object := range result.Grants {
		objects = append(objects, object)
	}
	for i, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return err
		}
		// The API server has these.
		unstructured.RemoveNestedField(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		text, err := yaml.Marshal(content)
		if err != nil {
			return err
		}
		separator := "---\n"
		if i == 0 {
			separator = ""
		}
		if _, err := io.WriteString(w, separator+string(text)); err != nil {
			return err
		}
	}
	return nil
}

// writeReport prints what is not in the objects, and the result of the comparison.
// Names and annotations come from a cluster, so they are escaped for the terminal.
func writeReport(w io.Writer, result *controller.Conversion) error {
	kept := map[string]bool{}
	for _, note := range result.Notes {
		kept[note.Object] = kept[note.Object] || note.Kept
	}
	var out strings.Builder
	for _, note := range result.Notes {
		word := "changed"
		if kept[note.Object] {
			word = "kept"
		}
		fmt.Fprintf(&out, "%s\n", printer.Printable(fmt.Sprintf("%s  %s  %s: %s", word, note.Object, note.Field, note.Message)))
	}
	for _, found := range result.Differences {
		fmt.Fprintf(&out, "%s\n", printer.Printable(fmt.Sprintf("differs  %s  %s: %s, and after it %s", found.Ingress, found.URL, found.Before, found.After)))
	}
	converted := map[string]bool{}
	for _, place := range result.Places {
		converted[place.Ingress.String()] = true
	}
	left := 0
	for object, stays := range kept {
		if stays && !converted[object] {
			left++
		}
	}
	fmt.Fprintf(&out, "%s converted, %d kept: %s, %s. %s compared, %d handled otherwise.\n",
		finding.Count(len(converted), "Ingress", "Ingresses"), left, finding.Count(len(result.Gateways), "Gateway", "Gateways"),
		finding.Count(len(result.Routes), "HTTPRoute", "HTTPRoutes"), finding.Count(result.Compared, "request was", "requests were"), len(result.Differences))
	_, err := io.WriteString(w, out.String())
	return err
}
