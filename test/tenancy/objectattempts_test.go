package tenancy

// objectAttempts are after namespaces of others, objects of the whole cluster,
// and rights that evil does not have.
func objectAttempts() []attempt {
	const (
		own       = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
		configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: bank}\n"
		refused   = "does not allow namespace bank of the cluster"
		noNames   = "there is no cluster prod-of-bank: add it with slipway cluster add NAME, or name another"
	)
	inBank := func(name, manifest string) attempt {
		return attempt{name: name, git: manifest, reason: refused, proof: absent("ConfigMap bank/" + name)}
	}
	to := func(destination string) string { return app{destination: destination}.yaml() }
	return []attempt{
		inBank("other-namespace", configMap),
		inBank("list", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: NAME, namespace: bank}}]\n"),
		inBank("typed-list", "apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: NAME, namespace: bank}}]\n"),
		inBank("list-in-list", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: NAME, namespace: bank}}]}]\n"),
		inBank("hook", own+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: bank, annotations: {argocd.argoproj.io/hook: PreSync}}\n"),
		inBank("hook-of-helm", own+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: bank, annotations: {helm.sh/hook: pre-install}}\n"),
		inBank("hook-on-failure", own+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: bank, annotations: {argocd.argoproj.io/hook: SyncFail}}\n"),
		{name: "destination", git: own, applies: to(`{server: "https://kubernetes.default.svc", namespace: bank}`),
			reason: refused, proof: absent("ConfigMap bank/destination")},
		{name: "destination-by-name", git: own, applies: to(`{name: in-cluster, namespace: bank}`),
			reason: refused, proof: absent("ConfigMap bank/destination-by-name")},
		{name: "destination-with-slash", git: own, applies: to(`{server: "https://kubernetes.default.svc/", namespace: bank}`),
			reason: refused, proof: absent("ConfigMap bank/destination-with-slash")},
		{name: "destination-second-name", git: own, applies: to(`{name: second-name, namespace: evil}`),
			reason: "does not allow namespace evil of the cluster", proof: absent("ConfigMap evil/destination-second-name")},
		{name: "unknown-cluster", applies: to(`{name: prod-of-bank, namespace: evil}`), reason: noNames, proof: none},
		{name: "create-namespace", git: own,
			applies: app{destination: `{server: "https://kubernetes.default.svc", namespace: bank-two}`, policy: "{automated: {}, syncOptions: [CreateNamespace=true]}"}.yaml(),
			reason:  "does not allow namespace bank-two", proof: absent("Namespace bank-two")},
		{name: "labels-of-namespace", git: own,
			applies: app{policy: "{automated: {}, syncOptions: [CreateNamespace=true], managedNamespaceMetadata: {labels: {pod-security.kubernetes.io/enforce: privileged}}}"}.yaml(),
			reason:  "does not allow Namespace of the core group, which has no namespace", proof: intact("Namespace evil")},
		{name: "namespace-of-bank", git: "apiVersion: v1\nkind: Namespace\nmetadata: {name: bank, labels: {taken: by-evil}}\n", applies: app{project: "namespaces"}.yaml(),
			reason: refused, proof: intact("Namespace bank")},
		{name: "cluster-role", git: "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: NAME}\nrules: []\n",
			reason: "does not allow ClusterRole of the group rbac.authorization.k8s.io, which has no namespace", proof: absent("ClusterRole cluster-role")},
		{name: "cluster-role-in-namespace", git: "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: NAME, namespace: evil}\nrules: []\n",
			reason: "does not allow ClusterRole", proof: absent("ClusterRole cluster-role-in-namespace")},
		{name: "cluster-role-in-list", git: "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleList\nitems: [{metadata: {name: NAME}, rules: []}]\n",
			reason: "does not allow ClusterRole", proof: absent("ClusterRole cluster-role-in-list")},
		{name: "definition", git: "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: applications.argoproj.io, labels: {taken: by-evil}}\nspec: {}\n",
			reason: "does not allow CustomResourceDefinition", proof: intact("CustomResourceDefinition applications.argoproj.io")},
		{name: "project-of-bank", applies: app{project: bank}.yaml(), reason: "spec.sourceNamespaces of the AppProject does not have it", proof: none},
		{name: "default-project", git: configMap, applies: app{project: "default"}.yaml(),
			reason: "spec.sourceNamespaces of the AppProject does not have it", proof: absent("ConfigMap bank/default-project")},
		{name: "own-project", git: configMap, prepares: "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: NAME, namespace: evil}\n" +
			"spec: {sourceRepos: ['*'], sourceNamespaces: ['*'], destinations: [{server: '*', namespace: '*'}]}\n", applies: app{project: "NAME"}.yaml(),
			reason: "there is no AppProject own-project in namespace slipway: make it, or name another", proof: absent("ConfigMap bank/own-project")},
		{name: "right-of-account", git: "apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\n", applies: app{project: "accounts"}.yaml(),
			reason: "system:serviceaccount:evil:deployer", proof: absent("Secret evil/right-of-account")},
		{name: "no-account", git: own,
			applies: app{project: "accounts", destination: `{server: "https://kubernetes.default.svc", namespace: evil-second}`}.yaml(),
			reason:  "has no ServiceAccount for namespace evil-second", proof: absent("ConfigMap evil-second/no-account")},
		// The ServiceAccount deletes nothing: an Application that names another
		// project does not get the rights of the agent for its deletion.
		{name: "deletion-without-project", git: own,
			applies: app{project: "accounts", metadata: cascading}.yaml(), once: true, then: `{"spec": {"project": "gone"}}`, deletes: true,
			reason: "is left alone: there is no project gone that the application may be in", proof: present("ConfigMap evil/deletion-without-project")},
		{name: "deletion-in-default", git: own,
			applies: app{project: "accounts", metadata: cascading}.yaml(), once: true, then: `{"spec": {"project": "default"}}`, deletes: true,
			reason: "is left alone: there is no project default that the application may be in", proof: present("ConfigMap evil/deletion-in-default")},
		{name: "deletion-without-account", git: own,
			applies: app{project: "accounts", metadata: cascading}.yaml(), once: true, then: `{"spec": {"destination": {"namespace": "evil-second"}}}`, deletes: true,
			reason: "is left alone: project accounts has no ServiceAccount for the destination", proof: present("ConfigMap evil/deletion-without-account")},
		{name: "deletion-by-account", git: own,
			applies: app{project: "accounts", metadata: cascading}.yaml(), once: true, then: `{"spec": {"source": {"repoURL": "http://localhost/corp/NAME"}}}`, deletes: true,
			reason: "system:serviceaccount:evil:deployer", proof: present("ConfigMap evil/deletion-by-account")},
		// The marks of bank's Application on an object of evil neither make it
		// OutOfSync nor keep it from being synced.
		{name: "marks-of-bank", applies: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, labels: {slipway.dev/app: " + labelOfBank + "}, annotations: {argocd.argoproj.io/tracking-id: \"bank_site:/ConfigMap:evil/NAME\"}}\n",
			readOn: "Application bank/site", reason: "ConfigMap evil/marks-of-bank has the label of the application and is left alone", proof: all(synced, present("ConfigMap evil/marks-of-bank"))},
	}
}

// cascading is a finalizer that deletes the objects of an Application with it.
const cascading = ", finalizers: [resources-finalizer.argocd.argoproj.io]"
