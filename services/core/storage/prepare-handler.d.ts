// The driver has no public way to prepare a statement without executing it. This is its own handler, which execute() and
// batch() call as well; what is prepared here is found there.
declare module 'cassandra-driver/lib/prepare-handler.js' {
  import type { Client, policies } from 'cassandra-driver';

  const PrepareHandler: {
    getPrepared(
      client: Client,
      loadBalancing: policies.loadBalancing.LoadBalancingPolicy,
      query: string,
      keyspace: string,
    ): Promise<unknown>;
  };
  export default PrepareHandler;
}
