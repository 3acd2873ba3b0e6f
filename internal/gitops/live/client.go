package live

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/kube"
)

// Requests makes requests whose responses are the JSON of the API server,
// undecoded. It shares the connections of the cluster's other clients.
func Requests(cluster *kube.Cluster) (rest.Interface, error) {
	config := rest.CopyConfig(cluster.Config)
	config.AcceptContentTypes, config.ContentType = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = jsonOnly()
	config.WarningHandler = rest.NoWarnings{}
	client, err := rest.HTTPClientFor(config)
	if shared, ok := cluster.Client.CoreV1().RESTClient().(*rest.RESTClient); ok && shared.Client != nil {
		client, err = shared.Client, nil
	}
	if err != nil {
		return nil, fmt.Errorf("make a client for the API server: %w", err)
	}
	return rest.UnversionedRESTClientForConfigAndClient(config, client)
}

// jsonOnly decodes responses into records, and the frames of a watch without
// their content.
func jsonOnly() runtime.NegotiatedSerializer {
	frames := runtime.NewScheme()
	metav1.AddToGroupVersion(frames, schema.GroupVersion{Version: "v1"})
	return runtime.NewSimpleNegotiatedSerializer(runtime.SerializerInfo{
		MediaType: runtime.ContentTypeJSON, MediaTypeType: "application", MediaTypeSubType: "json", EncodesAsText: true,
		Serializer: recordSerializer{json.NewSerializerWithOptions(json.DefaultMetaFactory, frames, frames, json.SerializerOptions{})},
		StreamSerializer: &runtime.StreamSerializerInfo{
			EncodesAsText: true,
			Serializer:    frameSerializer{json.NewSerializerWithOptions(json.DefaultMetaFactory, frames, frames, json.SerializerOptions{})},
			Framer:        json.Framer,
		},
	})
}

// Mapping is where the objects of a kind are: the resource of its path, and
// whether that has a namespace.
type Mapping struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// Path is the path of an object, or of all objects of the kind in a namespace
// if it has no name, or in the cluster if it has neither. Names come from
// manifests, which are untrusted: one that would lead elsewhere is refused.
func (m Mapping) Path(namespace, name string) (string, error) {
	for _, part := range []string{namespace, name} {
		if part == "." || part == ".." || strings.ContainsAny(part, "/%") {
			return "", fmt.Errorf("%.80q is no name: it may not be . or .., nor have / or %% in it", part)
		}
	}
	text := "/apis/" + m.Resource.Group + "/" + m.Resource.Version
	if m.Resource.Group == "" {
		text = "/api/" + m.Resource.Version
	}
	if m.Namespaced && namespace != "" {
		text += "/namespaces/" + namespace
	}
	text += "/" + m.Resource.Resource
	if name != "" {
		text += "/" + name
	}
	return text, nil
}
