import { runService } from '../core/runtime/run-service.ts';
import { composeDispatcher } from './compose.ts';

await runService('dispatcher', composeDispatcher);
