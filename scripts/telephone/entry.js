export { UA, WebSocketInterface } from "jssip";
