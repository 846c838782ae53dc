import { runService } from '../core/runtime/run-service.ts';
import { composeUseCases } from './compose.ts';
import { serveApi } from './serve.ts';

await runService('api', async (context) => serveApi(context, await composeUseCases(context)));
