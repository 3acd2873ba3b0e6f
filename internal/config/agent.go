package config

import (
	"slipway.dev/slipway/internal/secret"
)

// Agent holds every option of `slipway agent`. The description tags are the
// reference text; the yaml tags are the names that all sources share. Validate
// checks it after loading; the agent reads it only.
type Agent struct {
	Log            Log            `yaml:"log"`
	Admin          AdminServer    `yaml:"admin"`
	Health         HealthServer   `yaml:"health"`
	Kubernetes     KubernetesAPI  `yaml:"kubernetes"`
	Applications   Applications   `yaml:"applications"`
	Sources        SourceCache    `yaml:"sources"`
	Render         RenderLimits   `yaml:"render"`
	Plugins        PluginSockets  `yaml:"plugins"`
	Webhooks       WebhookServer  `yaml:"webhooks"`
	LeaderElection LeaderElection `yaml:"leaderElection"`
	Platform       PlatformLink   `yaml:"platform"`
	Runtime        RuntimeSelf    `yaml:"runtime"`
	Access         RuntimeAccess  `yaml:"access"`
	Traffic        AgentTraffic   `yaml:"traffic"`
	Outbound       Outbound       `yaml:"outbound"`
	Rollouts       Rollouts       `yaml:"rollouts"`
	ImageUpdates   ImageUpdates   `yaml:"imageUpdates"`
}

// Rollouts turns the controller of Rollouts on. It is off by default: it takes over
// workloads that another controller may have.
type Rollouts struct {
	Enabled bool `yaml:"enabled" description:"Reconcile Rollouts and AnalysisRuns of Argo Rollouts (argoproj.io/v1alpha1) in the namespaces of applications.destinations. It begins when the cluster has their CustomResourceDefinitions, and not while a controller of Argo Rollouts runs in the cluster."`
}

// ImageUpdates turns updates of images on. They are off by default: the agent commits to
// repositories.
type ImageUpdates struct {
	Enabled  bool     `yaml:"enabled" description:"Update images of Applications in Git, by the annotations and the ImageUpdaters of Argo CD's Image Updater (argocd-image-updater.argoproj.io). The agent then commits to the repositories of Applications that have them."`
	Interval Duration `yaml:"interval" description:"Interval at which the tags of images are read from their registries."`
}

// Outbound limits the addresses that users can make a process connect to.
type Outbound struct {
	Allow []string `yaml:"allow" description:"Addresses or networks that may be connected to although they are refused by default: those of this machine (127.0.0.0/8, ::1), of the local link (169.254.0.0/16, fe80::/10) and metadata services of clouds. It applies to addresses that users name, such as repositories: a list in a file, commas between them elsewhere."`
}

// KubernetesAPI selects the API server of the cluster and the credentials for
// it. The edge has the same three options in its Ingress provider.
type KubernetesAPI struct {
	Endpoint         string      `yaml:"endpoint" description:"URL of the Kubernetes API server, for example http://localhost:8001 with kubectl proxy. When empty, it is the cluster that the Pod runs in, or else the cluster of the KUBECONFIG file; required if there is neither."`
	Token            secret.Text `yaml:"token" description:"Bearer token for the API server. When empty, it is the token of the Pod's service account or of the KUBECONFIG file. Other users of a machine can see flags: prefer the file or the environment."`
	CertAuthFilePath string      `yaml:"certAuthFilePath" description:"PEM file with the CA certificates that verify the API server. When empty, they are those of the Pod's service account or of the KUBECONFIG file."`
}

// Applications selects the Applications that are reconciled, and the interval
// at which Git is polled.
type Applications struct {
	ControlNamespace string   `yaml:"controlNamespace" description:"Namespace of the AppProjects, of the Secrets and ConfigMaps with credentials, and of the Applications. It is the namespace in which Argo CD would be installed. The tracking annotations of existing objects depend on it: keep the name when you move from Argo CD."`
	Namespaces       []string `yaml:"namespaces" description:"Additional namespaces whose Applications are synced: a list in a file, commas between names elsewhere; * means every namespace. The project of an Application must list its namespace in sourceNamespaces."`
	Destinations     []string `yaml:"destinations" description:"Namespaces of this cluster that the agent deploys to, for an agent whose permissions are limited to them: a list in a file, commas between names elsewhere. When empty, the agent watches the whole cluster."`
	PollInterval     Duration `yaml:"pollInterval" description:"Interval at which the agent polls a repository for changed branches and tags. A webhook triggers an immediate poll."`
	PollJitter       Duration `yaml:"pollJitter" description:"Maximum random time that is added to pollInterval, different for each repository, so that the agent does not poll all of them at the same moment."`
	Workers          int      `yaml:"workers" description:"Number of Applications of one project that are reconciled concurrently. One more worker is for other projects. Applications that wait for the health of an object do not count."`
	Divide           bool     `yaml:"divide" description:"Divide the Applications between the replicas, so that each reconciles a share of them. Everything else stays with the leader. The agent then needs list, watch and delete on Leases of its namespace; all replicas must have the same value."`
	DivideTimeout    Duration `yaml:"divideTimeout" description:"Time after which a replica that is gone loses its share to the others. One that stops in order gives it away at once. All replicas must have the same value."`
}

// SourceCache configures the cache of fetched repositories and charts.
type SourceCache struct {
	CacheDir     string   `yaml:"cacheDir" description:"Cache directory of fetched Git repositories and charts. It is created if it does not exist, must belong to the agent alone, and can be deleted while the agent does not run. When empty, the agent uses a temporary directory that it deletes when it stops, and fetches everything again at each start."`
	FetchTimeout Duration `yaml:"fetchTimeout" description:"Timeout of one request to a Git server, chart repository or registry."`
	IndexLimit   string   `yaml:"indexLimit" description:"Maximum size of the index of a Helm repository, in bytes or with Ki, Mi or Gi. The index is read in a worker with the limits of rendering."`

	DiskPerProject string `yaml:"diskPerProject" description:"Maximum disk space of the repositories, charts and indexes that one AppProject uses, in bytes or with Ki, Mi or Gi. A project that exceeds it loses those that it used least recently, and a fetch that does not fit is refused. What several projects use counts for each of them."`
	DiskLimit      string `yaml:"diskLimit" description:"Maximum disk space of all projects together, in bytes or with Ki, Mi or Gi. When it is exceeded, projects that use more than an equal share lose what they used least recently."`

	Credentials SourceCredentials `yaml:"credentials"`
}

// SourceCredentials is a Git credential in a file, for an agent that starts
// without Secrets. All other credentials are Secrets of the control namespace.
type SourceCredentials struct {
	URL          string `yaml:"url" description:"URL prefix of the repositories that the credential is for, such as https://github.com/acme. With a platform it can be empty: the credential becomes that of the runtime, for the Git server of the account's settings."`
	Username     string `yaml:"username" description:"User name at the Git server, if it requires one."`
	PasswordFile string `yaml:"passwordFile" description:"File with the password or token, such as a mounted Secret. It is reloaded when it changes. When empty, no credential is read from a file."`
}

// RenderLimits bound the resources of one render. Rendering runs in worker
// processes, so that a chart that exceeds them cannot harm the agent.
type RenderLimits struct {
	Workers     int      `yaml:"workers" description:"Number of Applications that are rendered concurrently. 0 means one for each processor. Projects that wait for a worker take turns."`
	Timeout     Duration `yaml:"timeout" description:"Timeout of one render. The agent ends a render that exceeds it and reports that in the Application's status. It also applies to the index of a Helm repository and to an ApplicationSet."`
	MemoryLimit string   `yaml:"memoryLimit" description:"Memory limit of one worker, in bytes or with Ki, Mi or Gi. In addition to the renders there are up to two workers for indexes of Helm repositories and for ApplicationSets."`
	OutputLimit string   `yaml:"outputLimit" description:"Maximum total size of all objects of one Application, or of all Applications of one ApplicationSet, in bytes or with Ki, Mi or Gi."`
}

// PluginSockets are where config management plugins in sidecars of the agent
// serve.
type PluginSockets struct {
	SocketDir string   `yaml:"socketDir" description:"Directory of the Unix sockets of config management plugins, which run in sidecars of the agent as they do beside Argo CD's repo-server. It need not exist. An AppProject with limits lists the plugins that it may use in its annotation slipway.dev/plugins."`
	Timeout   Duration `yaml:"timeout" description:"Timeout of one call of a plugin. The agent reports a plugin that exceeds it in the Application's status."`
}

// WebhookServer is the server that receives push events of Git hosts.
type WebhookServer struct {
	Address string `yaml:"address" description:"Address that serves /webhooks, and /api/webhook as in Argo CD. It is a separate port, so that an Ingress for it exposes nothing else."`
	Secret  string `yaml:"secret" description:"Name of the Secret in the control namespace with the secrets that Git hosts sign with, under Argo CD's keys: webhook.github.secret, webhook.gitlab.secret, webhook.bitbucketserver.secret, webhook.gogs.secret, and in addition webhook.bitbucket.secret and webhook.gitea.secret. Requests of a Git host without a secret are refused."`
}

// LeaderElection elects the replica that reconciles. Without it two replicas
// would apply the same Applications.
type LeaderElection struct {
	Enabled   bool   `yaml:"enabled" description:"Elect a leader, so that only one of several replicas is active at a time. Disable it only if there can never be a second replica."`
	LeaseName string `yaml:"leaseName" description:"Name of the Lease, in the namespace of the agent. Agents with different Applications need different names if they share a namespace."`
}

// PlatformLink makes the agent a runtime of a platform. An empty URL turns it
// off; the agent then reconciles without a platform.
type PlatformLink struct {
	URL          string `yaml:"url" description:"URL of the platform that this agent is a runtime of, such as https://slipway.example.com. When empty, the agent delivers without a platform."`
	AccountID    string `yaml:"accountID" description:"ID of the account that the runtime belongs to. When set, an API key of another account is refused."`
	KeyFile      string `yaml:"keyFile" description:"File with an API key of an admin, or one with the scope runtime-register. It is needed for the first start only: the runtime exchanges it for a credential that it keeps in the Secret slipway-token of the control namespace."`
	KeySecret    string `yaml:"keySecret" description:"Secret of the control namespace with the API key, under the key token, instead of a file."`
	CAFile       string `yaml:"caFile" description:"PEM file with CA certificates that verify the platform, in addition to the system's."`
	AllowHTTP    bool   `yaml:"allowHTTP" description:"Allow a platform without TLS that is not on this machine. Credentials then cross the network without encryption."`
	StateDir     string `yaml:"stateDir" description:"Directory of reports that wait for the platform while it is unavailable, and of the fetched Shared Configuration Repository. When empty, the agent uses a temporary directory that it deletes when it stops, and reports everything again at each start."`
	WorkflowsURL string `yaml:"workflowsURL" description:"URL of a workflow server that /workflows forwards to. When empty, /workflows is not served."`
}

// RuntimeSelf identifies the runtime and its installation towards the platform.
// The chart sets most of it.
type RuntimeSelf struct {
	Name                 string `yaml:"name" description:"Name of the runtime, unique in the account: lower-case letters, digits and dashes, at most 38, beginning with a letter."`
	Cluster              string `yaml:"cluster" description:"Display name of the cluster. When empty, it is the host of its API server."`
	ConfigurationRuntime bool   `yaml:"configurationRuntime" description:"Make this the configuration runtime of the account at registration. The first runtime always becomes the configuration runtime."`
	ChartRepository      string `yaml:"chartRepository" description:"Repository of the runtime's chart, shown to users who upgrade it: an oci:// or https:// address."`
	ValuesFile           string `yaml:"valuesFile" description:"File with the values that the runtime was installed with. The chart sets it. With it the runtime can become an Application of itself; secrets in it are not written to Git."`
	ChartVersion         string `yaml:"chartVersion" description:"Version of the chart that installed the runtime. The chart sets it."`
	Release              string `yaml:"release" description:"Name of the Helm release that installed the runtime. The chart sets it. The runtime keeps it when it becomes an Application of itself, because its Deployments are selected by it."`
}

// RuntimeAccess configures how the platform and Git hosts reach the router of
// the runtime.
type RuntimeAccess struct {
	Mode         string `yaml:"mode" description:"How the platform reaches the runtime: tunnel, ingress, httpRoute or mesh. All but the tunnel need access.url."`
	URL          string `yaml:"url" description:"URL at which the Ingress, HTTPRoute or mesh serves the router, such as https://runtime.example.com."`
	IngressClass string `yaml:"ingressClass" description:"Class of the Ingress, shown to users in the runtime's details."`
	Address      string `yaml:"address" description:"Address of the router, which serves /app-proxy, /webhooks and /workflows. The Service internal-router targets it in every mode."`
}

// Defaults sets every option to its default. The agent, the edge and the
// platform have different default ports, so that all of them run on one
// machine.
func (a *Agent) Defaults() {
	const second = Duration(1e9)
	*a = Agent{
		Log:          Log{Level: "info", Format: "auto"},
		Admin:        AdminServer{Address: "127.0.0.1:8091"},
		Health:       HealthServer{Address: ":8083"},
		Applications: Applications{ControlNamespace: "argocd", PollInterval: 120 * second, PollJitter: 60 * second, Workers: 8, DivideTimeout: 15 * second},
		Sources:      SourceCache{FetchTimeout: 90 * second, IndexLimit: "128Mi", DiskPerProject: "4Gi", DiskLimit: "7Gi"},
		Render:       RenderLimits{Timeout: 60 * second, MemoryLimit: "512Mi", OutputLimit: "16Mi"},
		Plugins:      PluginSockets{SocketDir: "/home/argocd/cmp-server/plugins", Timeout: 90 * second},
		Webhooks:     WebhookServer{Address: ":8084", Secret: "argocd-secret"},
		LeaderElection: LeaderElection{
			Enabled: true, LeaseName: "slipway-agent",
		},
		Runtime: RuntimeSelf{Name: "slipway", ChartRepository: "oci://charts.slipway.dev"},
		Access:  RuntimeAccess{Mode: "tunnel", Address: ":8088"},
		Traffic: AgentTraffic{Port: DefaultTrafficPort, Secret: DefaultTrafficSecret},

		ImageUpdates: ImageUpdates{Interval: 120 * second},
	}
}
