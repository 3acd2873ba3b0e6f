package tenancy

// setting is what the administrator has made: namespaces, projects, credentials
// and what belongs to bank. The credentials are for the whole host, as those of a
// runtime often are, so that a source which passes the gate is read. SCHEDULE is
// half an hour ago: a sync that seems to have begun before that could go on.
const setting = `apiVersion: v1
kind: Namespace
metadata: {name: slipway}
---
apiVersion: v1
kind: Namespace
metadata: {name: bank}
---
apiVersion: v1
kind: Namespace
metadata: {name: evil}
---
apiVersion: v1
kind: Namespace
metadata: {name: evil-second}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: everything, namespace: evil}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: everything, namespace: evil}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: everything}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: evil}]
---
# Whose rights count in the project accounts: it deletes nothing.
apiVersion: v1
kind: ServiceAccount
metadata: {name: deployer, namespace: evil}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deployer, namespace: evil}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, create, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer, namespace: evil}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects: [{kind: ServiceAccount, name: deployer, namespace: evil}]
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: evil, namespace: slipway}
spec:
  sourceRepos: ["http://localhost/evil/**", "http://localhost/charts/evil", "http://*.corp.example/**"]
  sourceNamespaces: [evil]
  destinations: [{server: "https://kubernetes.default.svc", namespace: evil}]
---
# It forbids in the place of listing.
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: forbidding, namespace: slipway}
spec:
  sourceRepos: ["*", "!http://localhost/corp/**", "!localhost/corp/**"]
  sourceNamespaces: [evil]
  destinations: [{server: "https://kubernetes.default.svc", namespace: evil}]
---
# The documented app of apps: it names the control namespace.
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: evil-apps, namespace: slipway}
spec:
  sourceRepos: ["http://localhost/evil/**"]
  sourceNamespaces: [evil]
  destinations: [{server: "https://kubernetes.default.svc", namespace: slipway}, {server: "https://kubernetes.default.svc", namespace: evil}]
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: frozen, namespace: slipway}
spec:
  sourceRepos: ["http://localhost/evil/**"]
  sourceNamespaces: [evil]
  destinations: [{server: "https://kubernetes.default.svc", namespace: evil}]
  syncWindows: [{kind: deny, schedule: "SCHEDULE", duration: 4h, applications: ["*"], syncOverrun: true}]
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: accounts, namespace: slipway}
spec:
  sourceRepos: ["http://localhost/evil/**"]
  sourceNamespaces: [evil]
  destinations: [{server: "https://kubernetes.default.svc", namespace: "evil*"}]
  destinationServiceAccounts: [{server: "https://kubernetes.default.svc", namespace: evil, defaultServiceAccount: deployer}]
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: namespaces, namespace: slipway}
spec:
  sourceRepos: ["http://localhost/evil/**"]
  sourceNamespaces: [evil]
  destinations: [{server: "https://kubernetes.default.svc", namespace: evil}]
  clusterResourceWhitelist: [{group: "", kind: Namespace}]
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: patterns, namespace: slipway}
spec:
  sourceRepos: ["http://localhost/evil/**"]
  destinations: [{server: "*", namespace: "*"}]
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: operators, namespace: slipway}
spec:
  sourceRepos: ["http://localhost/evil/**"]
  destinations: [{server: "https://kubernetes.default.svc", namespace: slipway}]
  namespaceResourceWhitelist: [{group: apps, kind: Deployment}]
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: remote, namespace: slipway}
spec:
  sourceRepos: ["http://localhost/evil/**"]
  sourceNamespaces: [evil]
  destinations: [{name: second-name, namespace: slipway}]
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: bank, namespace: slipway}
spec:
  sourceRepos: ["http://localhost/corp/**"]
  sourceNamespaces: [bank]
  destinations: [{server: "https://kubernetes.default.svc", namespace: bank}]
---
apiVersion: v1
kind: Secret
metadata: {name: host, namespace: slipway, labels: {argocd.argoproj.io/secret-type: repo-creds}}
stringData: {type: git, url: "http://localhost", bearerToken: host-token, enableLfs: "true"}
---
apiVersion: v1
kind: Secret
metadata: {name: charts, namespace: slipway, labels: {argocd.argoproj.io/secret-type: repo-creds}}
stringData: {type: helm, url: "http://localhost/charts", username: runtime, password: chart-password}
---
apiVersion: v1
kind: Secret
metadata: {name: private, namespace: slipway, labels: {argocd.argoproj.io/secret-type: repository}}
stringData: {type: git, url: "http://localhost/private/secret-of-bank", bearerToken: bank-token, project: bank}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: slipway-agent, namespace: slipway, labels: {app.kubernetes.io/part-of: slipway}}
spec:
  replicas: 0
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: agent, image: slipway}]}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: site, namespace: bank}
spec:
  project: bank
  source: {repoURL: "http://localhost/corp/site", path: ., targetRevision: main}
  destination: {server: "https://kubernetes.default.svc", namespace: bank}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: site, namespace: bank, annotations: {slipway.dev/host-grants: evil=/shop}}
spec:
  rules:
  - {host: bank.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: bank, port: {number: 80}}}}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: others, namespace: bank}
spec:
  rules:
  - {host: "*.bank.example", http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: bank, port: {number: 80}}}}]}}
  - {http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: bank, port: {number: 80}}}}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: api, namespace: bank}
spec:
  rules:
  - {host: api.bank.example, http: {paths: [{path: /v1, pathType: Prefix, backend: {service: {name: bank, port: {number: 80}}}}]}}
`

// app is an Application of evil as YAML. Empty fields have the values that are
// right for evil: its namespace, its project, the folder NAME of its repository.
type app struct{ namespace, project, metadata, source, destination, policy string }

// yaml is the manifest.
func (a app) yaml() string {
	or := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return text
	}
	return `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: NAME, namespace: ` + or(a.namespace, evil) + a.metadata + `}
spec:
  project: ` + or(a.project, evil) + `
  ` + or(a.source, `source: {repoURL: "http://localhost/evil/apps", path: NAME, targetRevision: main}`) + `
  destination: ` + or(a.destination, `{server: "https://kubernetes.default.svc", namespace: `+or(a.namespace, evil)+`}`) + `
  syncPolicy: ` + or(a.policy, "{automated: {prune: true, selfHeal: true}}") + "\n"
}

// byHand is a policy without automated syncs.
const byHand = "{}"

// root is the Application that the administrator gave evil in the control
// namespace: all that is in the folder NAME.
func root(project string) string { return app{namespace: control, project: project}.yaml() }
