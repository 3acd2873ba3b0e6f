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
	Webhooks       WebhookServer  `yaml:"webhooks"`
	LeaderElection LeaderElection `yaml:"leaderElection"`
	Platform       PlatformLink   `yaml:"platform"`
	Runtime        RuntimeSelf    `yaml:"runtime"`
	Access         RuntimeAccess  `yaml:"access"`
	Traffic        AgentTraffic   `yaml:"traffic"`
}

// KubernetesAPI selects the API server of the cluster and the credentials for
// it. The edge has the same three options in its Ingress provider.
type KubernetesAPI struct {
	Endpoint         string      `yaml:"endpoint" description:"URL of the Kubernetes API server, for example http://localhost:8001 with kubectl proxy. When empty, it is the cluster that the Pod runs in, or else the one in the KUBECONFIG file; outside of both it is required."`
	Token            secret.Text `yaml:"token" description:"Bearer token for the API server. When empty, it is the one of the Pod's service account or of the KUBECONFIG file. Other users of a machine can see flags: prefer the file or the environment."`
	CertAuthFilePath string      `yaml:"certAuthFilePath" description:"PEM file with the authorities that may vouch for the API server. When empty, they are those of the Pod's service account or of the KUBECONFIG file."`
}

// Applications selects the Applications that are reconciled, and the interval
// at which Git is polled.
type Applications struct {
	ControlNamespace string   `yaml:"controlNamespace" description:"Namespace of the AppProjects, of the Secrets and ConfigMaps with credentials, and of the Applications. It is where Argo CD would be installed. What it has made before is known by this name too: keep the name when you move from Argo CD."`
	Namespaces       []string `yaml:"namespaces" description:"More namespaces whose Applications are synced: a list in a file, commas between names elsewhere; * is every namespace. The project of an Application has to list its namespace in sourceNamespaces."`
	Destinations     []string `yaml:"destinations" description:"Namespaces of this cluster that objects may be in, for an agent whose rights end there: a list in a file, commas between names elsewhere. When empty, the whole cluster is followed."`
	PollInterval     Duration `yaml:"pollInterval" description:"How often a repository is asked whether its branches and tags have moved. A webhook makes it ask at once."`
	PollJitter       Duration `yaml:"pollJitter" description:"Up to so much is added to pollInterval, another time for each repository, so that not all of them are asked at the same moment."`
	Workers          int      `yaml:"workers" description:"How many Applications are worked on at a time. Those that wait for the health of an object do not count."`
}

// SourceCache configures the cache of fetched repositories and charts.
type SourceCache struct {
	CacheDir     string   `yaml:"cacheDir" description:"Folder for what was fetched: bare Git repositories and charts. It is made if it is not there, must belong to the agent alone, and can be deleted while the agent does not run. When empty, it is a new folder that is deleted at the end, and everything is fetched anew at each start."`
	FetchTimeout Duration `yaml:"fetchTimeout" description:"Longest time that one request to a Git server, chart repository or registry may take."`
	IndexLimit   string   `yaml:"indexLimit" description:"Size that the index of a Helm repository may have, in bytes or with Ki, Mi or Gi. It is read in a worker with the limits of rendering."`

	Credentials SourceCredentials `yaml:"credentials"`
}

// SourceCredentials is a Git credential in a file, for an agent that starts
// without Secrets. All other credentials are Secrets of the control namespace.
type SourceCredentials struct {
	URL          string `yaml:"url" description:"What the addresses of the repositories begin with that the credential is for, such as https://github.com/acme. When empty, there is no credential in a file."`
	Username     string `yaml:"username" description:"User at the Git server, where it needs one."`
	PasswordFile string `yaml:"passwordFile" description:"File with the password or token, such as that of a Secret that is mounted. It is read again when it changes."`
}

// RenderLimits bound the resources of one render. Rendering runs in worker
// processes, so that a chart that exceeds them cannot harm the agent.
type RenderLimits struct {
	Workers     int      `yaml:"workers" description:"How many Applications are rendered at a time. 0 is one for each processor."`
	Timeout     Duration `yaml:"timeout" description:"Longest time that one render may take. It is ended then, and the Application says so. It is also for an index of a Helm repository and for an ApplicationSet."`
	MemoryLimit string   `yaml:"memoryLimit" description:"Memory that one worker may use, in bytes or with Ki, Mi or Gi. Beside the renders there are up to two workers for indexes of Helm repositories and for ApplicationSets."`
	OutputLimit string   `yaml:"outputLimit" description:"Size that all objects of one Application, or all Applications of one ApplicationSet, may have together, in bytes or with Ki, Mi or Gi."`
}

// WebhookServer is the server that receives push events of Git hosts.
type WebhookServer struct {
	Address string `yaml:"address" description:"Where /webhooks is served, and /api/webhook as Argo CD names it. It is a port of its own, so that an Ingress for it shows nothing else."`
	Secret  string `yaml:"secret" description:"Name of the Secret in the control namespace with the secrets that Git hosts sign with, under Argo CD's keys: webhook.github.secret, webhook.gitlab.secret, webhook.bitbucketserver.secret, webhook.gogs.secret, and beside them webhook.bitbucket.secret and webhook.gitea.secret. Requests of a host without one are refused."`
}

// LeaderElection elects the replica that reconciles. Without it two replicas
// would apply the same Applications.
type LeaderElection struct {
	Enabled   bool   `yaml:"enabled" description:"Let one of several replicas work at a time. Turn it off only where there can never be a second one."`
	LeaseName string `yaml:"leaseName" description:"Name of the Lease, in the namespace of the agent. Agents with different Applications need different names if they share a namespace."`
}

// PlatformLink makes the agent a runtime of a platform. An empty URL turns it
// off; the agent then reconciles without a platform.
type PlatformLink struct {
	URL          string `yaml:"url" description:"URL of the platform that this agent is a runtime of, such as https://slipway.example.com. When empty, there is none, and the agent delivers all the same."`
	AccountID    string `yaml:"accountID" description:"ID of the account that the runtime belongs to. When given, an API key of another account is refused."`
	KeyFile      string `yaml:"keyFile" description:"File with an API key of an admin, or one with the scope runtime-register. It is needed for the first start only: what the runtime gets for it is kept in the Secret slipway-token of the control namespace."`
	KeySecret    string `yaml:"keySecret" description:"Secret of the control namespace with the API key, under the key token, instead of a file."`
	CAFile       string `yaml:"caFile" description:"PEM file with authorities that may vouch for the platform, beside those of the system."`
	AllowHTTP    bool   `yaml:"allowHTTP" description:"Permit a platform without TLS that is not on this machine. Credentials can be read on the way then."`
	StateDir     string `yaml:"stateDir" description:"Folder for what the platform has to be told, in case it is away, and for what was fetched of the Shared Configuration Repository. When empty, it is a new folder that is deleted at the end, and the platform is told everything at each start."`
	WorkflowsURL string `yaml:"workflowsURL" description:"URL of a workflow server that /workflows leads to. When empty, there is none."`
}

// RuntimeSelf identifies the runtime and its installation towards the platform.
// The chart sets most of it.
type RuntimeSelf struct {
	Name                 string `yaml:"name" description:"Name of the runtime, unique in the account: lower-case letters, digits and dashes, at most 38, beginning with a letter."`
	Cluster              string `yaml:"cluster" description:"What people call the cluster. When empty, it is the host of its API server."`
	ConfigurationRuntime bool   `yaml:"configurationRuntime" description:"Make this the configuration runtime of the account when it is registered. The first runtime is one anyway."`
	ChartRepository      string `yaml:"chartRepository" description:"Where the chart of the runtime comes from, for people who upgrade it: an oci:// or https:// address."`
	ValuesFile           string `yaml:"valuesFile" description:"File with the values that the runtime was installed with. The chart sets it. With it the runtime can become an Application of itself; secrets in it are not written to Git."`
	ChartVersion         string `yaml:"chartVersion" description:"Version of the chart that installed the runtime. The chart sets it."`
	Release              string `yaml:"release" description:"Name of the Helm release that installed the runtime. The chart sets it. The runtime keeps it when it becomes an Application of itself, because its Deployments are selected by it."`
}

// RuntimeAccess configures how the platform and Git hosts reach the router of
// the runtime.
type RuntimeAccess struct {
	Mode         string `yaml:"mode" description:"How the platform reaches the runtime: tunnel, ingress, httpRoute or mesh. All but the tunnel need access.url."`
	URL          string `yaml:"url" description:"URL at which the Ingress, HTTPRoute or mesh serves the router, such as https://runtime.example.com."`
	IngressClass string `yaml:"ingressClass" description:"Class of the Ingress, for people who look at the runtime."`
	Address      string `yaml:"address" description:"Where the router is served: /app-proxy, /webhooks and /workflows. The Service internal-router leads to it in every mode."`
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
		Applications: Applications{ControlNamespace: "argocd", PollInterval: 120 * second, PollJitter: 60 * second, Workers: 8},
		Sources:      SourceCache{FetchTimeout: 90 * second, IndexLimit: "128Mi"},
		Render:       RenderLimits{Timeout: 60 * second, MemoryLimit: "512Mi", OutputLimit: "16Mi"},
		Webhooks:     WebhookServer{Address: ":8084", Secret: "argocd-secret"},
		LeaderElection: LeaderElection{
			Enabled: true, LeaseName: "slipway-agent",
		},
		Runtime: RuntimeSelf{Name: "slipway", ChartRepository: "oci://charts.slipway.dev"},
		Access:  RuntimeAccess{Mode: "tunnel", Address: ":8088"},
		Traffic: AgentTraffic{Port: DefaultTrafficPort, Secret: DefaultTrafficSecret},
	}
}
