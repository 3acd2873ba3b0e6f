package config

import (
	"fmt"
	"runtime"
	"strconv"

	"github.com/traefik/paerser/types"

	"slipway.dev/slipway/internal/secret"
)

// Duration is a time span that is read and printed as text, such as 1m30s. A
// number without a unit is in seconds.
type Duration = types.Duration

// Edge holds every option of `slipway edge`. The description tags are the
// reference text; the yaml tags are the names that all sources share.
type Edge struct {
	Log         Log                   `yaml:"log"`
	Admin       AdminServer           `yaml:"admin"`
	Health      HealthServer          `yaml:"health"`
	Traffic     EdgeTraffic           `yaml:"traffic"`
	EntryPoints map[string]EntryPoint `yaml:"entryPoints"`
	EventLoops  string                `yaml:"eventLoops" description:"Number of threads with an event loop, which serve the connections of HTTP/1.1 and HTTP/2. auto is one for each processor on Linux, and 0 serves every connection by a goroutine, as other systems do."`
	Shared      Shared                `yaml:"shared"`
	Providers   Providers             `yaml:"providers"`

	CertificatesResolvers map[string]CertificatesResolver `yaml:"certificatesResolvers"`

	AccessLog *AccessLog `yaml:"accessLog,omitempty" label:"allowEmpty" description:"Writes a line for each request. true enables it with its defaults, and so does any option of this group; false disables it, regardless of other options."`
	Tracing   *Tracing   `yaml:"tracing,omitempty" label:"allowEmpty" description:"Sends spans to an OpenTelemetry collector. true enables it with its defaults, and so does any option of this group; false disables it, regardless of other options."`
	LastGood  LastGood   `yaml:"lastGood"`
}

// Log configures the log of the process. Requests are in the access log.
type Log struct {
	Level  string `yaml:"level" description:"Minimum severity of log messages: debug, info, warn or error. The level info logs changes and no requests."`
	Format string `yaml:"format" description:"Format of log messages: text, json or auto. auto writes text to a terminal and JSON elsewhere, so that people and log collectors each get the format that they read best."`
}

// AdminServer is the server for the operator of this process. It has no
// authentication, so it listens on loopback.
type AdminServer struct {
	Address string `yaml:"address" description:"Address of the admin server, which serves profiles under /debug/pprof. It must be a loopback address, because a profile shows the contents of memory. Use kubectl port-forward to reach it from elsewhere."`
}

// HealthServer is the server for the kubelet and Prometheus.
type HealthServer struct {
	Address string `yaml:"address" description:"Address that serves /healthz, /readyz and /metrics. The kubelet and Prometheus connect from outside the Pod, so the default is every interface."`
}

// Shared has the options that must be equal on all replicas of the edge.
type Shared struct {
	SecretFile string       `yaml:"secretFile" description:"File with a secret of at least 32 bytes that is the same on all replicas, such as a mounted Kubernetes Secret. TLS sessions then resume on every replica, and sticky cookies cannot be guessed. When empty, each replica has its own key for sessions."`
	Limits     SharedLimits `yaml:"limits"`
}

// SharedLimits configures the exchange of limits between replicas. It is off by
// default.
type SharedLimits struct {
	Address string   `yaml:"address" description:"Address at which other replicas of the edge connect to exchange limits, so that a rate limit holds for all of them together. Both sides use TLS to prove that they have the secret of shared.secretFile; other clients are refused. When empty, each replica counts on its own: a limit of 100 is one of 100 for each."`
	Peers   []string `yaml:"peers" description:"Addresses of the replicas, as host:port, for shared.limits.address: a list in a file, commas between them elsewhere. A name stands for all of its addresses and is looked up every 2s, such as that of a headless Service. The replica itself may be among them, so that all replicas can have the same list."`
}

// Providers are the sources of routes. A nil provider is disabled.
type Providers struct {
	ProvidersThrottleDuration Duration                `yaml:"providersThrottleDuration" description:"Minimum time between two changes of the routes by one provider. Changes that arrive sooner wait and are applied together; a first change never waits. Each provider is throttled separately."`
	File                      *FileProvider           `yaml:"file,omitempty" label:"allowEmpty" description:"Reads routes from a file. Any option of this group enables the provider; false disables it, regardless of other options."`
	KubernetesIngress         *KubernetesIngress      `yaml:"kubernetesIngress,omitempty" label:"allowEmpty" description:"Serves the Ingresses of a Kubernetes cluster. true enables the provider with its defaults, and so does any option of this group; false disables it, regardless of other options."`
	KubernetesGateway         *KubernetesGateway      `yaml:"kubernetesGateway,omitempty" label:"allowEmpty" description:"Serves the Gateways and their routes of a Kubernetes cluster, of GatewayClasses with the controller slipway.dev/gateway-controller. true enables the provider with its defaults, and so does any option of this group. It needs kubernetesIngress, whose connection and namespaces it shares. It is not complete yet."`
	KubernetesIngressNGINX    *KubernetesIngressNGINX `yaml:"kubernetesIngressNGINX,omitempty" label:"allowEmpty" description:"Serves the Ingresses of ingress-nginx, with its annotations and its way to match paths. true enables the provider with its defaults, and so does any option of this group. It needs kubernetesIngress, whose connection and namespaces it shares."`
	KubernetesCRD             *KubernetesCRD          `yaml:"kubernetesCRD,omitempty" label:"allowEmpty" description:"Serves the IngressRoutes, IngressRouteTCPs and IngressRouteUDPs of a Kubernetes cluster, of the groups traefik.io and traefik.containo.us, for a migration from Traefik. true enables the provider with its defaults, and so does any option of this group; false disables it, regardless of other options. It needs kubernetesIngress, whose connection, namespaces and other options it shares."`
}

// KubernetesCRD derives routes from the custom resources of Traefik in a cluster.
type KubernetesCRD struct {
	AllowCrossNamespace bool     `yaml:"allowCrossNamespace" description:"Allow an IngressRoute to reference Services, Middlewares and other objects of other namespaces. When false, a namespace can use only its own objects."`
	IngressClass        string   `yaml:"ingressClass" description:"Value of the annotation kubernetes.io/ingress.class of the IngressRoutes to serve. When empty, these are those without the annotation, and with the value traefik."`
	LabelSelector       string   `yaml:"labelSelector" description:"Kubernetes label selector for the IngressRoutes to serve. When empty, all of them. It does not narrow the objects that they reference."`
	TCPEntryPoints      []string `yaml:"tcpEntryPoints" description:"Entry points whose connections an IngressRouteTCP with HostSNI(*) may take, all of them: a list in a file, commas between names elsewhere. When empty, there is none, because such a route takes the connections of all others."`
	TLSStoreNamespace   string   `yaml:"tlsStoreNamespace" description:"Namespace whose TLSStore default has the default certificate, and certificates for names that have none by their routes. Those of other namespaces are refused, because they would be for the hosts of all. When empty, it is the edge's own namespace."`
	DefaultRuleSyntax   string   `yaml:"defaultRuleSyntax" description:"Syntax of the rules that name none: v3 or v2. Rules of the group traefik.containo.us have v2."`
}

// SetDefaults sets every option of the provider to its default. The decoder
// calls it by this name when an option enables the provider.
func (k *KubernetesCRD) SetDefaults() { *k = KubernetesCRD{DefaultRuleSyntax: "v3"} }

// FileProvider reads routes from a file.
type FileProvider struct {
	Filename string `yaml:"filename" description:"File with the routes. Required by this provider."`
	Watch    bool   `yaml:"watch" description:"Watch the file for changes. When false, the file is read once, at startup."`
}

// KubernetesGateway derives routes from the objects of Gateway API in a cluster.
type KubernetesGateway struct {
	Addresses               []string `yaml:"addresses" description:"Addresses of this machine for Gateways, each an address or a network such as 192.0.2.16/28: a list in a file, commas between them elsewhere. Every Gateway gets one of its own, and the edge listens there on the ports of its listeners. A Gateway without an address is not served."`
	AddressesPerNamespace   int      `yaml:"addressesPerNamespace" description:"Maximum number of addresses of the Gateways of a namespace, so that no namespace can use all of them up; 0 for no maximum. A Gateway above it is not programmed, with the reason AddressNotAssigned."`
	Services                bool     `yaml:"services" description:"Writes a headless Service for each Gateway, slipway-NAME in its namespace, with the labels and annotations of spec.infrastructure. It leads to the address of the Gateway, and is deleted with it. The role needs get, create and patch on Services, and create and patch on EndpointSlices."`
	ServiceType             string   `yaml:"serviceType" description:"In a cluster without addresses: writes a Service of this type for each Gateway, ClusterIP, NodePort or LoadBalancer, slipway-NAME in its namespace. It gives the Gateway its address, and leads to a port of the edge's Pods from targetPorts for each port of the Gateway. When empty, Gateways have addresses of this machine."`
	Deployment              string   `yaml:"deployment" description:"Deployment of the edge in its own namespace. When set, each Gateway has a Deployment of its own there with the same Pods, slipway-gateway-HASH, to which the Service of serviceType leads, and this edge serves no Gateway itself. It needs serviceType, and the role gets, creates, patches and deletes Deployments and Services in the namespace."`
	Gateway                 string   `yaml:"gateway" description:"Serve this Gateway alone, a namespace/name, and no entry point to other machines. The edge sets it in the Pods of deployment; such a Pod writes no status."`
	TargetPorts             string   `yaml:"targetPorts" description:"Ports of the Pods for serviceType, from the first to the last: every port of every Gateway has one of its own."`
	EdgeService             string   `yaml:"edgeService" description:"Service, as namespace/name, whose ready endpoints are the Pods of the edge, for serviceType. When empty, it is ingressEndpoint.publishedService of kubernetesIngress."`
	TargetPortsPerNamespace int      `yaml:"targetPortsPerNamespace" description:"Maximum number of target ports of the Gateways of a namespace, so that no namespace can use all of them up; 0 for no maximum. A Gateway above it is not programmed, with the reason NoResources."`
}

// SetDefaults sets every option of the provider to its default. The decoder
// calls it by this name when an option enables the provider.
func (g *KubernetesGateway) SetDefaults() {
	*g = KubernetesGateway{AddressesPerNamespace: 8, TargetPorts: "20000-20999", TargetPortsPerNamespace: 100}
}

// KubernetesIngressNGINX derives routes from the Ingresses of ingress-nginx.
type KubernetesIngressNGINX struct {
	AnnotationClass          string `yaml:"annotationClass" description:"Value of the older annotation kubernetes.io/ingress.class of the Ingresses to serve."`
	ControllerClass          string `yaml:"controllerClass" description:"Controller in spec.controller of the IngressClasses whose Ingresses are served."`
	WatchIngressWithoutClass bool   `yaml:"watchIngressWithoutClass" description:"Serve Ingresses without a class as those of ingress-nginx, too. When false, kubernetesIngress serves them."`
	AllowSnippetAnnotations  bool   `yaml:"allowSnippetAnnotations" description:"Carry out the annotations configuration-snippet and server-snippet: directives of nginx, from a closed list. All who may write an Ingress can then set headers and responses of its hosts. When false, an Ingress with a snippet is refused. The key allow-snippet-annotations of the ConfigMap does the same."`
	ConfigMapFile            string `yaml:"configMapFile" description:"File with the ConfigMap of ingress-nginx, as kubectl get configmap -o yaml prints it. Its keys set the defaults of annotations. A key that cannot be carried out is an error at startup. A change of the file is live without a restart; one with such a key is logged, and the settings stay. When empty, the defaults of ingress-nginx apply."`
	PublishStatus            bool   `yaml:"publishStatus" description:"Write the addresses of the edge into the status of these Ingresses. Set it to false while ingress-nginx serves them, too, so that DNS still leads there."`
	StatusLease              string `yaml:"statusLease" description:"Lease of the leader election of ingress-nginx, as namespace/name, such as ingress-nginx/ingress-nginx-leader. The edge takes part in this election, and writes the status of these Ingresses only while it holds the Lease: ingress-nginx and the edge never write it at the same time. The role needs get, create and update on this Lease. When empty, the status is written without it."`
}

// SetDefaults sets every option of the provider to its default. The decoder
// calls it by this name when an option enables the provider.
func (n *KubernetesIngressNGINX) SetDefaults() {
	*n = KubernetesIngressNGINX{AnnotationClass: "nginx", ControllerClass: "k8s.io/ingress-nginx", PublishStatus: true}
}

// KubernetesIngress derives routes from the Ingresses of a cluster.
type KubernetesIngress struct {
	Endpoint                     string          `yaml:"endpoint" description:"URL of the Kubernetes API server, for example http://localhost:8001 with kubectl proxy. When empty, it is the cluster that the Pod runs in, or else the cluster of the KUBECONFIG file; required if there is neither."`
	Token                        secret.Text     `yaml:"token" description:"Bearer token for the API server. When empty, it is the token of the Pod's service account or of the KUBECONFIG file. Other users of a machine can see flags: prefer the file or the environment."`
	CertAuthFilePath             string          `yaml:"certAuthFilePath" description:"PEM file with the CA certificates that verify the API server. When empty, they are those of the Pod's service account or of the KUBECONFIG file."`
	Namespaces                   []string        `yaml:"namespaces" description:"Namespaces to watch: a list in a file, commas between names elsewhere. When empty, all of them. Nothing in other namespaces is read, neither Ingresses nor the Services and Secrets they name."`
	LabelSelector                string          `yaml:"labelSelector" description:"Kubernetes label selector for the Ingresses to serve. When empty, all of them. It does not narrow Services, Secrets and EndpointSlices."`
	IngressClass                 string          `yaml:"ingressClass" description:"Class of the Ingresses to serve: the name of an IngressClass, or the value of the older annotation kubernetes.io/ingress.class. When empty, these are every IngressClass of the controller slipway.dev/ingress-controller, and Ingresses without class or with the annotation values slipway and traefik."`
	DisableIngressClassLookup    bool            `yaml:"disableIngressClassLookup" description:"Do not read IngressClasses, for an edge without permission to read them. Ingresses with spec.ingressClassName are then not served; the annotation still works."`
	DisableClusterScopeResources bool            `yaml:"disableClusterScopeResources" description:"Do not read cluster-scoped resources (IngressClasses and Nodes), for an edge without permission to read them. Ingresses with spec.ingressClassName are then not served, and node addresses can be neither backends nor status."`
	IngressEndpoint              IngressEndpoint `yaml:"ingressEndpoint"`
	NodeName                     string          `yaml:"nodeName" description:"Node that this replica runs on; in a Pod, from spec.nodeName. The edge derives its zone from the node and follows the topology hints of Services, which keep traffic in the zone. When empty, hints are ignored."`
	ThrottleDuration             Duration        `yaml:"throttleDuration" description:"Minimum time between two updates from the cluster's events, so that a busy cluster does not keep the edge busy. 0s processes every event as it arrives."`
	AllowEmptyServices           bool            `yaml:"allowEmptyServices" description:"Run the filters of a path whose Service has no ready endpoint before responding with 503. When false, the edge responds with 503 at once."`
	AllowCrossNamespace          bool            `yaml:"allowCrossNamespace" description:"Allow annotations of an Ingress to reference objects of other namespaces, as namespace/name. When false, a namespace can use only its own objects."`
	AllowExternalNameServices    bool            `yaml:"allowExternalNameServices" description:"Allow an Ingress to use a Service of type ExternalName. When false, such an Ingress is refused, because its author could send traffic to any host that the edge reaches."`
	HostSharing                  string          `yaml:"hostSharing" description:"How the edge treats rules of a namespace for a host of another namespace, for a wildcard above it or without a host; a host belongs to the namespace of the oldest Ingress that has it. deny: they are refused, unless the owner grants them with the annotation slipway.dev/host-grants. behind: they are served behind all rules of the owner. open: priority and path order the rules of all namespaces alike, as in Traefik; for a cluster with one tenant."`
	NativeLBByDefault            bool            `yaml:"nativeLBByDefault" description:"Send requests to the address of the Service and let Kubernetes choose the Pod, unless an annotation of the Service overrides it. When false, the edge chooses, and avoids Pods that fail."`
	StrictPrefixMatching         bool            `yaml:"strictPrefixMatching" description:"Match paths of type Prefix element by element, as the Kubernetes specification requires: /foo matches /foo and /foo/bar, not /foobar. When false, character by character: /foobar matches too."`
	DisablePassHostHeaders       bool            `yaml:"disablePassHostHeaders" description:"Send the backend its own address as the Host header. When false, the backend gets the header that the client sent."`
}

// IngressEndpoint is the address in the status of each Ingress, for users and
// for tools that create DNS records.
type IngressEndpoint struct {
	IP               string `yaml:"ip" description:"IP address, version 4 or 6, for the status of each Ingress served."`
	Hostname         string `yaml:"hostname" description:"Host name for the status of each Ingress served."`
	PublishedService string `yaml:"publishedService" description:"Service, as namespace/name, whose addresses are copied to the status of each Ingress served: those of the load balancer, the externalIPs of a ClusterIP Service, or the external addresses of the nodes for NodePort. It replaces ip and hostname."`
}

// Defaults sets every option to its default, with no provider enabled. The
// entry point web is replaced by those that the configuration names.
func (e *Edge) Defaults() {
	*e = Edge{
		EventLoops:  "auto",
		Log:         Log{Level: "info", Format: "auto"},
		Admin:       AdminServer{Address: "127.0.0.1:8090"},
		Health:      HealthServer{Address: ":8082"},
		EntryPoints: map[string]EntryPoint{"web": defaultEntryPoint()},
		Providers:   Providers{},
	}
}

// SetDefaults sets every option of the provider to its default. The decoder
// calls it by this name when an option enables the provider.
func (f *FileProvider) SetDefaults() {
	*f = FileProvider{Watch: true}
}

// SetDefaults sets every option of the provider to its default. The decoder
// calls it by this name when an option enables the provider.
func (k *KubernetesIngress) SetDefaults() {
	*k = KubernetesIngress{StrictPrefixMatching: true, HostSharing: "deny"}
}

// maxLoops bounds eventLoops: more than there are processors serve nothing.
const maxLoops = 1024

// Loops is the number of event loops.
func (e *Edge) Loops() (int, error) {
	if e.EventLoops == "auto" {
		if runtime.GOOS != "linux" {
			return 0, nil
		}
		return runtime.GOMAXPROCS(0), nil
	}
	loops, err := strconv.Atoi(e.EventLoops)
	if err != nil || loops < 0 || loops > maxLoops {
		return 0, fmt.Errorf("%q is no number of event loops: use auto, or a number from 0 to %d", e.EventLoops, maxLoops)
	}
	return loops, nil
}
