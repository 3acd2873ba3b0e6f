package argosetting

// Repository returns the fields of the Secrets of repositories and of their
// credentials.
func Repository() Table {
	const token = "write username and password, with a token as the password"
	return Table{
		used("type", "url", "name", "project", "username", "password", "bearerToken", "sshPrivateKey",
			"githubAppID", "githubAppInstallationID", "githubAppPrivateKey", "githubAppEnterpriseBaseUrl",
			"tlsClientCertData", "tlsClientCertKey", "insecure", "insecureIgnoreHostKey",
			"enableOCI", "enableLfs", "forceHttpBasicAuth", "insecureOCIForceHttp", "proxy", "noProxy"),
		refused(token, "gcpServiceAccountKey", "useAzureWorkloadIdentity", "azureServicePrincipal*", "azureActiveDirectoryEndpoint").unless("false"),
		unused("remove it: one commit is fetched, without its history", "depth").unless("0"),
		unused("remove it: nothing is rendered by a webhook alone", "webhookManifestCacheWarmDisabled"),
	}
}

// Cluster returns the fields of the Secrets of clusters. Those of the field
// config have its name in front.
func Cluster() Table {
	const account = "use a token of a service account: slipway cluster add makes one"
	return Table{
		used("name", "server", "namespaces", "clusterResources", "project", "config.bearerToken", "config.tlsClientConfig", "config.tlsClientConfig.*"),
		refused("a program that gets a credential is not run: "+account, "config.execProviderConfig", "config.awsAuthConfig"),
		refused("no API server takes a name and password any more: "+account, "config.username", "config.password"),
		refused("connections to clusters use no proxy of their own: run a runtime in that cluster, or make it reachable and remove the field", "config.proxyUrl"),
		unused("one process serves all clusters", "shard"),
		unused("responses are compressed where the API server offers it", "config.disableCompression"),
	}
}
